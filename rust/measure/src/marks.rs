//! Hashes of records with their versions. A check compares a record whole once and knows it again by its hash. No loop
//! and no clock may be put here.
//!
//! `dyno.suites.records.dataset.python_answer_hashes` is the reference.

use std::ptr::null_mut;

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use pyo3::Borrowed;

use dyno_buffer::Array;

/// Writes `hash((version, (name, location, stub)))` of each answer into `into`; 0 for an answer that is not a record.
#[pyfunction]
pub fn marks(
    py: Python<'_>,
    versions: &Bound<'_, PyAny>,
    answers: &Bound<'_, PyList>,
    into: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let (versions, into) = (Array::of(versions)?, Array::of(into)?);
    if versions.len() != answers.len() || into.len() != answers.len() {
        return Err(PyValueError::new_err("there are as many versions and places as answers"));
    }
    let (from, to) = (versions.contiguous()?, into.writable()?);
    let names = ["name", "location", "stub"].map(|name| PyString::intern(py, name));
    for (at, answer) in answers.iter().enumerate() {
        // SAFETY: within the arrays, as was checked; no Python code but the interpreter's own runs meanwhile.
        let (version, mark) = unsafe { (*from.add(at), &mut *to.add(at)) };
        *mark = match strings(&answer, &names) {
            Some(strings) => (version, strings.into_pyobject(py)?).into_pyobject(py)?.hash()? as i64,
            None => 0,
        };
    }
    Ok(())
}

type Strings<'a, 'py> = (Borrowed<'a, 'py, PyAny>, Borrowed<'a, 'py, PyAny>, Borrowed<'a, 'py, PyAny>);

/// Name, location and stub of a record. None for anything but a dict of three strings by these names, of exactly these
/// types, so that no hash or comparison is an engine's own.
fn strings<'a, 'py>(answer: &'a Bound<'py, PyAny>, names: &[Bound<'py, PyString>; 3]) -> Option<Strings<'a, 'py>> {
    let py = answer.py();
    let (mut key, mut value, mut place) = (null_mut(), null_mut(), 0);
    let mut strings = [null_mut(); 3];
    // SAFETY: a live object and the interpreter's lock. The answer keeps the strings alive, which nothing changes here;
    // the interpreter's borrowed references avoid counting, which would take most of the time.
    unsafe {
        if ffi::PyDict_CheckExact(answer.as_ptr()) == 0 || ffi::PyDict_Size(answer.as_ptr()) != 3 {
            return None;
        }
        while ffi::PyDict_Next(answer.as_ptr(), &mut place, &mut key, &mut value) != 0 {
            if ffi::PyUnicode_CheckExact(key) == 0 || ffi::PyUnicode_CheckExact(value) == 0 {
                return None;
            }
            let is_key =
                |name: &Bound<'py, PyString>| name.as_ptr() == key || ffi::PyUnicode_Compare(key, name.as_ptr()) == 0;
            strings[names.iter().position(is_key)?] = value;
        }
        // Three different keys among three names: none is null.
        let [name, location, stub] = strings.map(|string| Borrowed::from_ptr(py, string));
        Some((name, location, stub))
    }
}
