//! Encodes requests: the bytes of one operation. Never called while the clock runs.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString};

/// A parameter or argument: text, bytes, an integer, or NULL.
enum Value<'a> {
    Null,
    Integer(i64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    fn of(object: &'a Bound<'_, PyAny>) -> PyResult<Value<'a>> {
        if let Ok(text) = object.cast::<PyString>() {
            // SAFETY of the borrow: the text object lives as long as `object`, and holds its UTF-8 form.
            return Ok(Value::Bytes(utf8(text)?));
        }
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Value::Bytes(bytes.as_bytes()));
        }
        if object.is_none() {
            return Ok(Value::Null);
        }
        if object.cast::<PyInt>().is_ok() {
            return Ok(Value::Integer(object.extract()?));
        }
        Err(PyTypeError::new_err("expected text, bytes, an integer or None"))
    }
}

fn utf8<'a>(text: &'a Bound<'_, PyString>) -> PyResult<&'a [u8]> {
    let mut length: pyo3::ffi::Py_ssize_t = 0;
    // SAFETY: a live text object, which keeps the returned bytes until it is freed.
    let bytes = unsafe {
        let start = pyo3::ffi::PyUnicode_AsUTF8AndSize(text.as_ptr(), &mut length);
        if start.is_null() {
            return Err(PyErr::fetch(text.py()));
        }
        std::slice::from_raw_parts(start.cast::<u8>(), length as usize)
    };
    Ok(bytes)
}

fn items<'py>(values: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    values.try_iter()?.collect()
}

fn short(length: usize, what: &str) -> PyResult<u16> {
    u16::try_from(length).map_err(|_| PyValueError::new_err(format!("too many {what}: {length}")))
}

fn int(length: usize) -> PyResult<i32> {
    i32::try_from(length).map_err(|_| PyValueError::new_err(format!("a request of {length} bytes is too large")))
}

/// Bind, Execute and Sync for a prepared statement, with parameters and results as text.
#[pyfunction]
pub fn postgresql<'py>(
    py: Python<'py>,
    statement: &[u8],
    values: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyBytes>> {
    let values = items(values)?;
    let mut bytes = vec![b'B', 0, 0, 0, 0, 0];
    bytes.extend_from_slice(statement);
    bytes.extend_from_slice(&[0, 0, 0]);
    bytes.extend_from_slice(&short(values.len(), "parameters")?.to_be_bytes());
    for value in &values {
        let text;
        let content = match Value::of(value)? {
            Value::Null => {
                bytes.extend_from_slice(&(-1i32).to_be_bytes());
                continue;
            }
            Value::Integer(number) => {
                text = number.to_string();
                text.as_bytes()
            }
            Value::Bytes(content) => content,
        };
        bytes.extend_from_slice(&int(content.len())?.to_be_bytes());
        bytes.extend_from_slice(content);
    }
    bytes.extend_from_slice(&[0, 0]);
    let length = int(bytes.len() - 1)?;
    bytes[1..5].copy_from_slice(&length.to_be_bytes());
    // Execute the unnamed portal without a limit of rows; Sync.
    bytes.extend_from_slice(b"E\0\0\0\x09\0\0\0\0\0S\0\0\0\x04");
    Ok(PyBytes::new(py, &bytes))
}

const MYSQL_STMT_EXECUTE: u8 = 0x17;
const MYSQL_TYPE_LONGLONG: u8 = 8;
const MYSQL_TYPE_NULL: u8 = 6;
const MYSQL_TYPE_BLOB: u8 = 252;
const MYSQL_TYPE_VAR_STRING: u8 = 253;

/// COM_STMT_EXECUTE for a prepared statement; its results are binary.
#[pyfunction]
pub fn mysql<'py>(py: Python<'py>, statement: u32, values: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let values = items(values)?;
    let mut bytes = vec![0, 0, 0, 0, MYSQL_STMT_EXECUTE];
    bytes.extend_from_slice(&statement.to_le_bytes());
    // No cursor; one iteration.
    bytes.extend_from_slice(&[0, 1, 0, 0, 0]);
    if !values.is_empty() {
        let nulls = bytes.len();
        bytes.resize(nulls + values.len().div_ceil(8), 0);
        bytes.push(1);
        let mut contents = Vec::new();
        for (at, value) in values.iter().enumerate() {
            let kind = match Value::of(value)? {
                Value::Null => {
                    bytes[nulls + at / 8] |= 1 << (at % 8);
                    MYSQL_TYPE_NULL
                }
                Value::Integer(number) => {
                    contents.extend_from_slice(&number.to_le_bytes());
                    MYSQL_TYPE_LONGLONG
                }
                Value::Bytes(content) => {
                    push_length_encoded(&mut contents, content.len());
                    contents.extend_from_slice(content);
                    if value.cast::<PyString>().is_ok() {
                        MYSQL_TYPE_VAR_STRING
                    } else {
                        MYSQL_TYPE_BLOB
                    }
                }
            };
            bytes.extend_from_slice(&[kind, 0]);
        }
        bytes.extend_from_slice(&contents);
    }
    let length = bytes.len() - 4;
    if length >= 0xff_ffff {
        return Err(PyValueError::new_err(format!("a request of {length} bytes is too large")));
    }
    bytes[..3].copy_from_slice(&(length as u32).to_le_bytes()[..3]);
    Ok(PyBytes::new(py, &bytes))
}

fn push_length_encoded(bytes: &mut Vec<u8>, length: usize) {
    match length {
        0..=250 => bytes.push(length as u8),
        251..=0xffff => {
            bytes.push(0xfc);
            bytes.extend_from_slice(&(length as u16).to_le_bytes());
        }
        _ => {
            bytes.push(0xfd);
            bytes.extend_from_slice(&(length as u32).to_le_bytes()[..3]);
        }
    }
}

/// One command as an array of bulk strings.
#[pyfunction]
pub fn redis<'py>(py: Python<'py>, arguments: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    let arguments = items(arguments)?;
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in &arguments {
        let text;
        let content = match Value::of(argument)? {
            Value::Null => return Err(PyTypeError::new_err("a command has no None")),
            Value::Integer(number) => {
                text = number.to_string();
                text.as_bytes()
            }
            Value::Bytes(content) => content,
        };
        bytes.extend_from_slice(format!("${}\r\n", content.len()).as_bytes());
        bytes.extend_from_slice(content);
        bytes.extend_from_slice(b"\r\n");
    }
    Ok(PyBytes::new(py, &bytes))
}

pub const OP_MSG: i32 = 2013;

/// OP_MSG with one document, encoded as BSON.
#[pyfunction]
pub fn mongodb<'py>(py: Python<'py>, request: i32, document: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let mut bytes = Vec::with_capacity(21 + document.len());
    for field in [int(21 + document.len())?, request, 0, OP_MSG, 0] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    // A body section.
    bytes.push(0);
    bytes.extend_from_slice(document);
    Ok(PyBytes::new(py, &bytes))
}
