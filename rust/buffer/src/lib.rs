//! Arrays and bytes of other libraries, by the buffer protocol. No loop and no clock may be put here.
//!
//! One library serves every Python from 3.10 on, by the stable ABI. The buffer protocol is in that ABI since 3.11, and is
//! the same in 3.10: its functions and its structure are declared here as in the headers of 3.11.

use std::ffi::{c_char, c_int, c_void, CStr};

use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi::{PyObject, Py_ssize_t};
use pyo3::prelude::*;
use pyo3::types::PyByteArray;

/// `Py_buffer` of Include/cpython/object.h (3.10) and Include/pybuffer.h (3.11 and later).
#[repr(C)]
struct View {
    buf: *mut c_void,
    obj: *mut PyObject,
    len: Py_ssize_t,
    itemsize: Py_ssize_t,
    readonly: c_int,
    ndim: c_int,
    format: *mut c_char,
    shape: *mut Py_ssize_t,
    strides: *mut Py_ssize_t,
    suboffsets: *mut Py_ssize_t,
    internal: *mut c_void,
}

extern "C" {
    fn PyObject_GetBuffer(object: *mut PyObject, view: *mut View, flags: c_int) -> c_int;
    fn PyBuffer_Release(view: *mut View);
}

/// PyBUF_FORMAT | PyBUF_STRIDES: any strides, read-only or not, with the format of its items.
const STRIDED_WITH_FORMAT: c_int = 0x04 | 0x10 | 0x08;
const SIZE: Py_ssize_t = 8;

/// A one-dimensional array of int64, held until this is dropped.
pub struct Array<'py> {
    /// In a box, since some exporters store pointers from the structure into itself.
    view: Box<View>,
    _py: Python<'py>,
}

impl<'py> Array<'py> {
    /// Err for an object without a buffer (TypeError), and for any other array (BufferError).
    pub fn of(object: &Bound<'py, PyAny>) -> PyResult<Array<'py>> {
        // SAFETY: integers and pointers, of which all zeros is a value.
        let mut view: Box<View> = Box::new(unsafe { std::mem::zeroed() });
        // SAFETY: a live object, and a structure of the layout that the function fills.
        if unsafe { PyObject_GetBuffer(object.as_ptr(), &mut *view, STRIDED_WITH_FORMAT) } != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        let array = Array { view, _py: object.py() };
        if array.view.ndim != 1 || array.view.itemsize != SIZE || !array.is_signed() {
            return Err(PyBufferError::new_err("expected a one-dimensional array of int64"));
        }
        Ok(array)
    }

    fn is_signed(&self) -> bool {
        if self.view.format.is_null() {
            return false;
        }
        // SAFETY: a text that lives as long as the view.
        let format = unsafe { CStr::from_ptr(self.view.format) }.to_bytes();
        // The machine's own byte order may be named before the type.
        matches!(format, [b'@' | b'=', b'l' | b'q'] | [b'l' | b'q'])
    }

    /// Whether it has no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn len(&self) -> usize {
        // SAFETY: requested by the flags, and of one dimension.
        unsafe { *self.view.shape as usize }
    }

    fn stride(&self) -> Py_ssize_t {
        // SAFETY: as above.
        unsafe { *self.view.strides }
    }

    /// Returns a copy, whatever the strides are.
    pub fn to_vec(&self) -> Vec<i64> {
        let at = |index: usize| {
            let place = self.view.buf.cast::<u8>().wrapping_offset(self.stride() * index as Py_ssize_t);
            // SAFETY: within the array, by the exporter's own shape and strides; the read needs no alignment.
            unsafe { place.cast::<i64>().read_unaligned() }
        };
        (0..self.len()).map(at).collect()
    }

    /// Pointer to the values. Err if they are not contiguous.
    pub fn contiguous(&self) -> PyResult<*mut i64> {
        let aligned = self.view.buf as usize % std::mem::align_of::<i64>() == 0;
        if self.len() > 1 && self.stride() != SIZE || !aligned {
            return Err(PyValueError::new_err("counts and values are contiguous arrays of int64"));
        }
        Ok(self.view.buf.cast())
    }

    /// Pointer to the values, to write to. Err if they are read-only or not contiguous.
    pub fn writable(&self) -> PyResult<*mut i64> {
        if self.view.readonly != 0 {
            return Err(PyValueError::new_err("the counters are read-only"));
        }
        self.contiguous()
    }
}

impl Drop for Array<'_> {
    fn drop(&mut self) {
        // SAFETY: filled by PyObject_GetBuffer, and released once; the token proves that the interpreter's lock is held.
        unsafe { PyBuffer_Release(&mut *self.view) }
    }
}

/// Returns the numbers as an array of int64 in the machine's byte order.
pub fn column<'py>(
    py: Python<'py>,
    numbers: impl ExactSizeIterator<Item = i64>,
) -> PyResult<Bound<'py, PyByteArray>> {
    PyByteArray::new_with(py, numbers.len() * SIZE as usize, |bytes| {
        for (place, number) in bytes.chunks_exact_mut(SIZE as usize).zip(numbers) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        Ok(())
    })
}

/// PyBUF_SIMPLE: contiguous bytes, read-only or not.
const SIMPLE: c_int = 0;

/// Contiguous bytes of any object, held until this is dropped.
pub struct Bytes {
    view: Box<View>,
}

// SAFETY: the exporter keeps its memory in place while the view is held; whoever drops it holds the interpreter's lock.
unsafe impl Send for Bytes {}
// SAFETY: as above; nothing is written through it.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// Err for an object without a buffer, or with one that is not contiguous.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Bytes> {
        // SAFETY: integers and pointers, of which all zeros is a value.
        let mut view: Box<View> = Box::new(unsafe { std::mem::zeroed() });
        // SAFETY: a live object, and a structure of the layout that the function fills.
        if unsafe { PyObject_GetBuffer(object.as_ptr(), &mut *view, SIMPLE) } != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        Ok(Bytes { view })
    }

    pub fn as_slice(&self) -> &[u8] {
        if self.view.len == 0 {
            return &[];
        }
        // SAFETY: so many bytes, which stay where they are while the view is held.
        unsafe { std::slice::from_raw_parts(self.view.buf.cast(), self.view.len as usize) }
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: filled by PyObject_GetBuffer, and released once, by an owner in a Python object.
        unsafe { PyBuffer_Release(&mut *self.view) }
    }
}
