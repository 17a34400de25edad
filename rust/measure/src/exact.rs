//! Finds objects by their exact type. No loop and no clock may be put here.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyType};

/// Returns the positions of the objects that are of exactly this type. Runs no code of the objects, which could claim to
/// be of another type.
#[pyfunction]
pub fn positions(answers: &Bound<'_, PyList>, kind: &Bound<'_, PyType>) -> Vec<usize> {
    let (list, kind) = (answers.as_ptr(), kind.as_type_ptr());
    // SAFETY: the interpreter's lock is held and no Python code runs here, so the list keeps its length and its items;
    // types are compared by address. The items are borrowed: counting references would take most of the time.
    let is_kind = |at: &usize| unsafe { ffi::Py_TYPE(ffi::PyList_GetItem(list, *at as ffi::Py_ssize_t)) == kind };
    (0..answers.len()).filter(is_kind).collect()
}
