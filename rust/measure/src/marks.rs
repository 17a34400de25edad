//! Hashes of records with their versions, by which an answer is known again that was compared whole before. No loop
//! and no clock may be put here.
//!
//! `dyno.suites.records.dataset` has the same in Python, which says what is right.

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyList;

use crate::buffer::Array;

/// Of the interpreter's hash of tuples, which is xxHash's for 64 bits.
const PRIMES: [u64; 3] = [11_400_714_785_074_694_791, 14_029_467_366_897_019_727, 2_870_177_450_012_600_261];
const SUFFIX: u64 = PRIMES[2] ^ 3_527_539;
/// What stands for -1, which a hash may not be.
const NOT_MINUS_ONE: u64 = 1_546_275_796;

/// Writes into `into` the hash of each answer at its version; 0 for what is no record.
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
    let names = [pyo3::intern!(py, "name"), pyo3::intern!(py, "location"), pyo3::intern!(py, "stub")];
    let names = names.map(|name| name.as_ptr());
    for (at, answer) in answers.iter().enumerate() {
        // SAFETY: within the arrays, as was checked; nobody else has the answer, which is alive, and is only read.
        unsafe { *to.add(at) = strings(answer.as_ptr(), &names).map_or(0, |strings| mark(*from.add(at), strings)) };
    }
    Ok(())
}

/// Name, location and stub of a record; None of what is no dict of three strings by these names, of exactly these types,
/// so that no code but the interpreter's own is run for their hashes.
///
/// # Safety
/// A live object, and the interpreter's lock is held.
unsafe fn strings(answer: *mut ffi::PyObject, names: &[*mut ffi::PyObject; 3]) -> Option<[*mut ffi::PyObject; 3]> {
    if ffi::PyDict_CheckExact(answer) == 0 || ffi::PyDict_Size(answer) != 3 {
        return None;
    }
    let (mut found, mut place) = ([std::ptr::null_mut(); 3], 0);
    let (mut key, mut value) = (std::ptr::null_mut(), std::ptr::null_mut());
    while ffi::PyDict_Next(answer, &mut place, &mut key, &mut value) != 0 {
        if ffi::PyUnicode_CheckExact(key) == 0 || ffi::PyUnicode_CheckExact(value) == 0 {
            return None;
        }
        let at = names.iter().position(|&name| key == name || ffi::PyUnicode_Compare(key, name) == 0)?;
        found[at] = value;
    }
    Some(found)
}

/// `hash((version, (name, location, stub)))`.
///
/// # Safety
/// Three live strings, and the interpreter's lock is held.
unsafe fn mark(version: i64, strings: [*mut ffi::PyObject; 3]) -> i64 {
    let version = if version == -1 { -2 } else { version };
    let strings = strings.map(|string| ffi::PyObject_Hash(string) as u64);
    tuple(&[version as u64, tuple(&strings)]) as i64
}

fn tuple(hashes: &[u64]) -> u64 {
    let mixed = hashes.iter().fold(PRIMES[2], |sum, hash| {
        sum.wrapping_add(hash.wrapping_mul(PRIMES[1])).rotate_left(31).wrapping_mul(PRIMES[0])
    });
    match mixed.wrapping_add(hashes.len() as u64 ^ SUFFIX) {
        u64::MAX => NOT_MINUS_ONE,
        hash => hash,
    }
}
