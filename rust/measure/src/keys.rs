//! Packs tuples of strings into bytes that sort alike: keys of the record layer. No loop and no clock may be put here.
//!
//! `dyno.suites.records.layer` has the same in Python, which says what is right.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString, PyTuple};

const NUL: u8 = 0;
/// Follows a NUL within a part: it is not a byte of UTF-8, and greater than the NUL that ends a part.
const INSIDE: u8 = 0xff;

/// Returns the prefix and each of the strings, in UTF-8 and followed by a NUL. A NUL within a string becomes NUL 0xff.
#[pyfunction]
pub fn pack<'py>(
    py: Python<'py>,
    prefix: &Bound<'py, PyBytes>,
    parts: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyBytes>> {
    let prefix = prefix.as_bytes();
    let mut size = prefix.len();
    for part in parts.iter_borrowed() {
        let text = text(&part)?;
        size += text.len() + nuls(text) + 1;
    }
    PyBytes::new_with(py, size, |key| {
        let mut at = prefix.len();
        key[..at].copy_from_slice(prefix);
        for part in parts.iter_borrowed() {
            at = put(key, at, text(&part)?);
        }
        Ok(())
    })
}

fn text<'a>(part: &'a Bound<'_, PyAny>) -> PyResult<&'a [u8]> {
    Ok(part.cast::<PyString>()?.to_str()?.as_bytes())
}

fn nuls(text: &[u8]) -> usize {
    text.iter().filter(|&&byte| byte == NUL).count()
}

/// Writes one part from `at` on; returns where the next one begins.
fn put(key: &mut [u8], mut at: usize, text: &[u8]) -> usize {
    if !text.contains(&NUL) {
        let end = at + text.len();
        key[at..end].copy_from_slice(text);
        key[end] = NUL;
        return end + 1;
    }
    for &byte in text {
        key[at] = byte;
        at += 1;
        if byte == NUL {
            key[at] = INSIDE;
            at += 1;
        }
    }
    key[at] = NUL;
    at + 1
}
