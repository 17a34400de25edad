//! Calls an engine's own callable with one argument. No loop and no clock may be put here.
//!
//! The interpreter's vectorcall is the cheapest way. It is in the stable ABI since Python 3.12; 3.11 exports a function of
//! the same name; 3.10 uses it within a function with a variable number of arguments.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::OnceLock;

use pyo3::ffi::{PyObject, PyObject_CallFunctionObjArgs};

/// Arguments: the callable, its arguments, their number and a flag, and the names of keyword arguments (null: none).
pub type Vectorcall = unsafe extern "C" fn(*mut PyObject, *const *mut PyObject, usize, *mut c_void) -> *mut PyObject;

/// One argument, and the place before it may be used by the callee: PY_VECTORCALL_ARGUMENTS_OFFSET.
pub const ONE: usize = 1 | (1 << (usize::BITS - 1));

/// Returns this interpreter's function; it is looked up once in each process.
pub fn vectorcall() -> Vectorcall {
    static FUNCTION: OnceLock<Vectorcall> = OnceLock::new();
    *FUNCTION.get_or_init(|| {
        // SAFETY: a name that ends with a NUL.
        let symbol = unsafe { libc::dlsym(libc::RTLD_DEFAULT, b"PyObject_Vectorcall\0".as_ptr().cast()) };
        if symbol.is_null() {
            return by_varargs;
        }
        // SAFETY: the function has this signature in every version that exports it.
        unsafe { std::mem::transmute::<*mut c_void, Vectorcall>(symbol) }
    })
}

/// # Safety
/// `call` is a live object, and `arguments` has one.
unsafe extern "C" fn by_varargs(
    call: *mut PyObject,
    arguments: *const *mut PyObject,
    _: usize,
    _: *mut c_void,
) -> *mut PyObject {
    // SAFETY: as the caller promises; null ends the arguments.
    unsafe { PyObject_CallFunctionObjArgs(call, *arguments, null_mut::<PyObject>()) }
}
