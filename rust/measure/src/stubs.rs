//! The random part of a record of the dataset, computed from the record's number whenever an input or a check needs it.
//! No loop and no clock may be put here.
//!
//! `dyno.suites.records.dataset.python_stub` is the reference.

use base64::prelude::{Engine, BASE64_STANDARD};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyString;
use sha3::digest::{ExtendableOutput, Update, XofReader};
use sha3::Shake128;
use std::io::Write;

/// Digits of the version at the start of a stub.
const DIGITS: usize = 7;

/// Returns the version in 7 digits, and `chars` characters of SHAKE128("prefix number:version") in Base64.
#[pyfunction]
pub fn stub<'py>(
    py: Python<'py>,
    prefix: &[u8],
    number: u64,
    version: u64,
    chars: usize,
) -> PyResult<Bound<'py, PyString>> {
    let mut hash = Shake128::default();
    hash.update(prefix);
    let mut text = Vec::with_capacity(DIGITS + chars + 4);
    write!(text, "{number}:{version}")?;
    hash.update(&text);
    let mut noise = vec![0; (chars * 3).div_ceil(4)];
    hash.finalize_xof().read(&mut noise);
    text.clear();
    write!(text, "{version:0DIGITS$}")?;
    let start = text.len();
    text.resize(start + noise.len().div_ceil(3) * 4, 0);
    BASE64_STANDARD
        .encode_slice(&noise, &mut text[start..])
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    text.truncate(start + chars);
    Ok(PyString::new(py, std::str::from_utf8(&text)?))
}
