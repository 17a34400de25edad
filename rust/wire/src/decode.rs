//! Decodes a response into Python values, after the clock has stopped.
//!
//! PostgreSQL and MySQL: a list of rows, each a tuple, of the first result; or the number of rows that a statement without a result changed.
//! Redis: bytes, int, None, or a list of these. MongoDB: the document's bytes. An error response is an instance of the
//! caller's exception, with the server's text.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::bson;
use crate::encode::OP_MSG;
use crate::framing::{length_encoded, Protocol};

type Value<'py> = Bound<'py, PyAny>;

pub fn response<'py>(
    py: Python<'py>,
    protocol: Protocol,
    bytes: &[u8],
    error: &Bound<'py, PyAny>,
) -> PyResult<Value<'py>> {
    let value = match protocol {
        Protocol::Postgresql => postgresql(py, bytes, error),
        Protocol::Mysql => mysql(py, bytes, error),
        Protocol::Redis => match redis(py, bytes, error, 0) {
            Some(Ok((value, _))) => Some(Ok(value)),
            Some(Err(error)) => Some(Err(error)),
            None => None,
        },
        Protocol::Mongodb => mongodb(py, bytes, error),
    };
    value.unwrap_or_else(|| Err(PyValueError::new_err("a response is shorter than its own lengths say")))
}

fn text<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Value<'py>> {
    Ok(PyString::new(py, std::str::from_utf8(bytes)?).into_any())
}

fn integer<'py>(py: Python<'py>, number: impl Into<i128>) -> PyResult<Value<'py>> {
    let number: i128 = number.into();
    Ok(match i64::try_from(number) {
        Ok(small) => PyInt::new(py, small).into_any(),
        Err(_) => PyInt::new(py, number as u64).into_any(),
    })
}

fn failure<'py>(error: &Bound<'py, PyAny>, code: &[u8], message: &[u8]) -> PyResult<Value<'py>> {
    let text = format!("{}: {}", String::from_utf8_lossy(code), String::from_utf8_lossy(message));
    error.call1((text,))
}

/// None if the bytes end too early. Each message was framed, so its type and length are known to be there.
fn postgresql<'py>(py: Python<'py>, bytes: &[u8], error: &Bound<'py, PyAny>) -> Option<PyResult<Value<'py>>> {
    let (mut at, mut rows, mut affected) = (0, Vec::new(), None);
    while at + 5 <= bytes.len() {
        let length = u32::from_be_bytes(bytes[at + 1..at + 5].try_into().ok()?) as usize;
        let body = bytes.get(at + 5..at + 1 + length)?;
        match bytes[at] {
            b'D' => match postgresql_row(py, body)? {
                Ok(row) => rows.push(row),
                Err(error) => return Some(Err(error)),
            },
            b'C' => {
                let tag = body.strip_suffix(b"\0")?;
                let last = tag.rsplit(|&byte| byte == b' ').next()?;
                let rows = std::str::from_utf8(last).ok().and_then(|digits| digits.parse::<i64>().ok());
                affected = (!tag.starts_with(b"SELECT")).then(|| rows.unwrap_or(0));
            }
            b'E' => {
                let field = |kind: u8| {
                    let mut fields = body.split(|&byte| byte == 0);
                    fields.find(|field| field.first() == Some(&kind)).map_or(&b""[..], |field| &field[1..])
                };
                return Some(failure(error, field(b'C'), field(b'M')));
            }
            _ => {}
        }
        at += 1 + length;
    }
    Some(match affected {
        Some(count) if rows.is_empty() => integer(py, count),
        _ => PyList::new(py, rows).map(Bound::into_any),
    })
}

fn postgresql_row<'py>(py: Python<'py>, body: &[u8]) -> Option<PyResult<Bound<'py, PyTuple>>> {
    let columns = u16::from_be_bytes(body.get(..2)?.try_into().ok()?);
    let (mut at, mut values) = (2, Vec::with_capacity(columns.into()));
    for _ in 0..columns {
        let length = i32::from_be_bytes(body.get(at..at + 4)?.try_into().ok()?);
        at += 4;
        if length < 0 {
            values.push(py.None().into_bound(py));
            continue;
        }
        match text(py, body.get(at..at + length as usize)?) {
            Ok(value) => values.push(value),
            Err(error) => return Some(Err(error)),
        }
        at += length as usize;
    }
    Some(PyTuple::new(py, values))
}

/// The packets of a response, those that continue another one joined to it.
fn mysql_packets(bytes: &[u8]) -> Option<Vec<std::borrow::Cow<'_, [u8]>>> {
    let (mut at, mut packets, mut continues) = (0, Vec::new(), false);
    while at < bytes.len() {
        let header = bytes.get(at..at + 4)?;
        let length = usize::from(header[0]) | usize::from(header[1]) << 8 | usize::from(header[2]) << 16;
        let payload = bytes.get(at + 4..at + 4 + length)?;
        if continues {
            let last: &mut std::borrow::Cow<'_, [u8]> = packets.last_mut()?;
            last.to_mut().extend_from_slice(payload);
        } else {
            packets.push(std::borrow::Cow::Borrowed(payload));
        }
        continues = length == 0xff_ffff;
        at += 4 + length;
    }
    Some(packets)
}

fn mysql<'py>(py: Python<'py>, bytes: &[u8], error: &Bound<'py, PyAny>) -> Option<PyResult<Value<'py>>> {
    let packets = mysql_packets(bytes)?;
    let first = packets.first()?;
    match first.first()? {
        0x00 => return Some(integer(py, length_encoded(&first[1..])?.0)),
        0xff => return Some(mysql_error(first, error)),
        _ => {}
    }
    let columns = length_encoded(first)?.0 as usize;
    let kinds: Option<Vec<Column>> = packets.get(1..=columns)?.iter().map(|packet| Column::of(packet)).collect();
    let (kinds, mut rows, mut eof) = (kinds?, Vec::new(), false);
    let mut rest = packets.get(1 + columns..)?.iter();
    for packet in rest.by_ref() {
        match packet.first()? {
            0x00 => match mysql_row(py, packet, &kinds)? {
                Ok(row) => rows.push(row),
                Err(error) => return Some(Err(error)),
            },
            0xff => return Some(mysql_error(packet, error)),
            // The end of the column definitions, if it is told by a packet of its own; else that of the rows.
            _ if eof || packet.len() != 5 => break,
            _ => eof = true,
        }
    }
    // A procedure may fail after its first result.
    if let Some(packet) = rest.find(|packet| packet.first() == Some(&0xff)) {
        return Some(mysql_error(packet, error));
    }
    Some(PyList::new(py, rows).map(Bound::into_any))
}

fn mysql_error<'py>(packet: &[u8], error: &Bound<'py, PyAny>) -> PyResult<Value<'py>> {
    let code = packet.get(1..3).map_or(0, |code| u16::from_le_bytes([code[0], code[1]]));
    let message = packet.get(3..).unwrap_or(b"");
    // A '#' and five characters of SQLSTATE precede the message.
    let message = if message.first() == Some(&b'#') { message.get(6..).unwrap_or(b"") } else { message };
    failure(error, code.to_string().as_bytes(), message)
}

struct Column {
    kind: u8,
    unsigned: bool,
    binary: bool,
}

impl Column {
    /// From a column definition packet: six length-encoded texts, then a block of fixed length.
    fn of(packet: &[u8]) -> Option<Column> {
        let mut at = 0;
        for _ in 0..6 {
            let (length, bytes) = length_encoded(packet.get(at..)?)?;
            at += bytes + length as usize;
        }
        let fixed = packet.get(at + 1..at + 11)?;
        Some(Column {
            kind: fixed[6],
            unsigned: fixed[7] & 0x20 != 0,
            binary: u16::from_le_bytes([fixed[0], fixed[1]]) == 63,
        })
    }
}

fn mysql_row<'py>(py: Python<'py>, packet: &[u8], columns: &[Column]) -> Option<PyResult<Bound<'py, PyTuple>>> {
    // The bitmap of NULLs begins with two unused bits.
    let nulls = packet.get(1..1 + (columns.len() + 9) / 8)?;
    let (mut at, mut values) = (1 + nulls.len(), Vec::with_capacity(columns.len()));
    for (number, column) in columns.iter().enumerate() {
        if nulls[(number + 2) / 8] & 1 << ((number + 2) % 8) != 0 {
            values.push(py.None().into_bound(py));
            continue;
        }
        let rest = packet.get(at..)?;
        let fixed = |length: usize| rest.get(..length);
        let signed = |bytes: &[u8]| {
            let mut wide = [if bytes[bytes.len() - 1] & 0x80 != 0 && !column.unsigned { 0xff } else { 0 }; 16];
            wide[..bytes.len()].copy_from_slice(bytes);
            i128::from_le_bytes(wide)
        };
        let (value, length) = match column.kind {
            1 => (integer(py, signed(fixed(1)?)), 1),
            2 | 13 => (integer(py, signed(fixed(2)?)), 2),
            3 | 9 => (integer(py, signed(fixed(4)?)), 4),
            8 => (integer(py, signed(fixed(8)?)), 8),
            4 => {
                let number = f32::from_le_bytes(fixed(4)?.try_into().ok()?);
                (Ok(PyFloat::new(py, number.into()).into_any()), 4)
            }
            5 => (Ok(PyFloat::new(py, f64::from_le_bytes(fixed(8)?.try_into().ok()?)).into_any()), 8),
            _ => {
                let (length, prefix) = length_encoded(rest)?;
                let content = rest.get(prefix..prefix + length as usize)?;
                let value = if column.binary { Ok(PyBytes::new(py, content).into_any()) } else { text(py, content) };
                (value, prefix + content.len())
            }
        };
        match value {
            Ok(value) => values.push(value),
            Err(error) => return Some(Err(error)),
        }
        at += length;
    }
    Some(PyTuple::new(py, values))
}

/// Returns the reply that begins at `at` and where it ends.
fn redis<'py>(
    py: Python<'py>,
    bytes: &[u8],
    error: &Bound<'py, PyAny>,
    at: usize,
) -> Option<PyResult<(Value<'py>, usize)>> {
    let rest = bytes.get(at..)?;
    let line = rest.iter().position(|&byte| byte == b'\n')?;
    let content = rest.get(1..line)?.strip_suffix(b"\r")?;
    let end = at + line + 1;
    let number = || std::str::from_utf8(content).ok()?.parse::<i64>().ok();
    let value = match rest[0] {
        b'-' => failure_of_redis(error, content),
        b':' => integer(py, number()?),
        b'_' => Ok(py.None().into_bound(py)),
        b'+' | b',' | b'#' | b'(' => Ok(PyBytes::new(py, content).into_any()),
        b'$' | b'=' | b'!' => {
            let Ok(length) = usize::try_from(number()?) else {
                return Some(Ok((py.None().into_bound(py), end)));
            };
            let content = bytes.get(end..end + length)?;
            let value = match rest[0] {
                b'!' => failure_of_redis(error, content),
                _ => Ok(PyBytes::new(py, content).into_any()),
            };
            return Some(value.map(|value| (value, end + length + 2)));
        }
        kind @ (b'*' | b'~' | b'%' | b'|' | b'>') => {
            let Ok(length) = usize::try_from(number()?) else {
                return Some(Ok((py.None().into_bound(py), end)));
            };
            let (mut values, mut end) = (Vec::new(), end);
            for _ in 0..if matches!(kind, b'%' | b'|') { 2 * length } else { length } {
                match redis(py, bytes, error, end)? {
                    Ok((value, after)) => {
                        values.push(value);
                        end = after;
                    }
                    Err(error) => return Some(Err(error)),
                }
            }
            if matches!(kind, b'|' | b'>') {
                // They precede the reply itself.
                return redis(py, bytes, error, end);
            }
            return Some(PyList::new(py, values).map(|list| (list.into_any(), end)));
        }
        _ => return None,
    };
    Some(value.map(|value| (value, end)))
}

fn failure_of_redis<'py>(error: &Bound<'py, PyAny>, message: &[u8]) -> PyResult<Value<'py>> {
    error.call1((String::from_utf8_lossy(message).into_owned(),))
}

/// An OP_MSG with the document of a reply as its only section.
fn mongodb<'py>(py: Python<'py>, bytes: &[u8], error: &Bound<'py, PyAny>) -> Option<PyResult<Value<'py>>> {
    let number = |at: usize| Some(i32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    if number(12)? != OP_MSG || *bytes.get(20)? != 0 {
        return Some(Err(PyValueError::new_err("a response is no OP_MSG with one document")));
    }
    // A checksum, which the flags announce, follows the document.
    let checksum = if number(16)? & 1 != 0 { 4 } else { 0 };
    let document = bytes.get(21..bytes.len().checked_sub(checksum)?)?;
    Some(match bson::outcome(document)? {
        Ok(()) => Ok(PyBytes::new(py, document).into_any()),
        Err(failed) => failure(error, &failed.code, &failed.message),
    })
}
