//! Arrays of int64 and of floats of other libraries, by the buffer protocol. No loop and no clock may be put here.
//!
//! One library serves every Python from 3.10 on, by the stable ABI. The protocol is in that since 3.11, as it was in 3.10:
//! the same functions and the same structure, declared here as that version's header has them.

use std::ffi::{c_char, c_int, c_void, CStr};

use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi::{PyObject, Py_ssize_t};
use pyo3::prelude::*;

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

/// PyBUF_FORMAT | PyBUF_STRIDES: of any strides, read-only or not, with its format.
const STRIDED_WITH_FORMAT: c_int = 0x04 | 0x10 | 0x08;
const SIZE: Py_ssize_t = 8;

/// PyBUF_FORMAT | PyBUF_ND: of any shape, its values one after the other.
const CONTIGUOUS_WITH_FORMAT: c_int = 0x04 | 0x08;

/// Asks for it. Err for what has no buffer (TypeError), or none of that kind (BufferError).
fn held(object: &Bound<'_, PyAny>, flags: c_int) -> PyResult<Box<View>> {
    // SAFETY: integers and pointers, of which all zeros is a value.
    let mut view: Box<View> = Box::new(unsafe { std::mem::zeroed() });
    // SAFETY: a live object, and a structure of the layout that the function fills.
    if unsafe { PyObject_GetBuffer(object.as_ptr(), &mut *view, flags) } != 0 {
        return Err(PyErr::fetch(object.py()));
    }
    Ok(view)
}

/// What the type of its items is called, of this machine's own order: one letter as a rule.
fn format(view: &View) -> &[u8] {
    if view.format.is_null() {
        return b"";
    }
    // SAFETY: a text that lives as long as the view.
    match unsafe { CStr::from_ptr(view.format) }.to_bytes() {
        [b'@' | b'=', rest @ ..] => rest,
        whole => whole,
    }
}

/// A one-dimensional array of int64, held until this is dropped.
pub struct Array<'py> {
    /// In a box, as some exporters point from the structure into itself.
    view: Box<View>,
    _py: Python<'py>,
}

impl<'py> Array<'py> {
    /// Err for what has no buffer (TypeError), and for an array of anything else (BufferError).
    pub fn of(object: &Bound<'py, PyAny>) -> PyResult<Array<'py>> {
        let array = Array { view: held(object, STRIDED_WITH_FORMAT)?, _py: object.py() };
        if array.view.ndim != 1 || array.view.itemsize != SIZE || !array.is_signed() {
            return Err(PyBufferError::new_err("what is wanted is an array of int64, of one dimension"));
        }
        Ok(array)
    }

    fn is_signed(&self) -> bool {
        matches!(format(&self.view), b"l" | b"q")
    }

    pub fn len(&self) -> usize {
        // SAFETY: asked for, and of one dimension.
        unsafe { *self.view.shape as usize }
    }

    fn stride(&self) -> Py_ssize_t {
        // SAFETY: as above.
        unsafe { *self.view.strides }
    }

    /// A copy, however it lies in memory.
    pub fn to_vec(&self) -> Vec<i64> {
        let at = |index: usize| {
            let place = self.view.buf.cast::<u8>().wrapping_offset(self.stride() * index as Py_ssize_t);
            // SAFETY: within the array, by the exporter's own shape and strides; read wherever it is aligned.
            unsafe { place.cast::<i64>().read_unaligned() }
        };
        (0..self.len()).map(at).collect()
    }

    /// Where its values begin. Err if they are not one after the other.
    pub fn contiguous(&self) -> PyResult<*mut i64> {
        let aligned = self.view.buf as usize % std::mem::align_of::<i64>() == 0;
        if self.len() > 1 && self.stride() != SIZE || !aligned {
            return Err(PyValueError::new_err("counts and values are contiguous arrays of int64"));
        }
        Ok(self.view.buf.cast())
    }

    /// The same, to be written to.
    pub fn writable(&self) -> PyResult<*mut i64> {
        if self.view.readonly != 0 {
            return Err(PyValueError::new_err("the counters can not be written to"));
        }
        self.contiguous()
    }
}

impl Drop for Array<'_> {
    fn drop(&mut self) {
        // SAFETY: got by PyObject_GetBuffer, and released once; the interpreter's lock is held, as the token says.
        unsafe { PyBuffer_Release(&mut *self.view) }
    }
}

/// A contiguous array of floats of either width, held until this is dropped.
pub struct Floats<'py> {
    view: Box<View>,
    _py: Python<'py>,
}

/// Its values, which nobody changes meanwhile: the caller's arrays are its own.
pub enum Values<'a> {
    Single(&'a [f32]),
    Double(&'a [f64]),
}

impl<'py> Floats<'py> {
    /// Err for what has no buffer (TypeError), and for an array of anything else (BufferError, ValueError).
    pub fn of(object: &Bound<'py, PyAny>) -> PyResult<Floats<'py>> {
        let floats = Floats { view: held(object, CONTIGUOUS_WITH_FORMAT)?, _py: object.py() };
        if floats.len() == 0 {
            return Err(PyValueError::new_err("an array has to have values"));
        }
        Ok(floats)
    }

    fn len(&self) -> usize {
        self.view.len as usize / (self.view.itemsize.max(1) as usize)
    }

    pub fn values(&self) -> PyResult<Values<'_>> {
        let (from, count) = (self.view.buf, self.len());
        // SAFETY: contiguous, of that type and length, aligned as is checked, and alive as long as the view.
        unsafe {
            match format(&self.view) {
                b"f" if self.is_of::<f32>() => Ok(Values::Single(std::slice::from_raw_parts(from.cast(), count))),
                b"d" if self.is_of::<f64>() => Ok(Values::Double(std::slice::from_raw_parts(from.cast(), count))),
                _ => Err(PyBufferError::new_err("what is wanted is an array of float32 or float64")),
            }
        }
    }

    fn is_of<T>(&self) -> bool {
        self.view.itemsize as usize == std::mem::size_of::<T>()
            && self.view.buf as usize % std::mem::align_of::<T>() == 0
    }

    pub fn is_at(&self, place: *mut c_void) -> bool {
        self.view.buf == place
    }

    /// Where its values begin, to be written to.
    pub fn writable(&self) -> PyResult<*mut c_void> {
        if self.view.readonly != 0 {
            return Err(PyValueError::new_err("what is written into has to be writable"));
        }
        Ok(self.view.buf)
    }
}

impl Drop for Floats<'_> {
    fn drop(&mut self) {
        // SAFETY: got by PyObject_GetBuffer, and released once; the interpreter's lock is held, as the token says.
        unsafe { PyBuffer_Release(&mut *self.view) }
    }
}
