//! Latencies into the counters of an HdrHistogram: log-linear, by the same arithmetic as its interchange format; and the
//! counters of those that were kept in that format, unpacked, back.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use crate::buffer::Array;

/// Adds the values to the counters of a histogram whose lowest value is 1, and whose sub-buckets number
/// 2 << `magnitude`. A value is cut to 1 and to `highest`.
#[pyfunction]
pub fn record(counts: &Bound<'_, PyAny>, values: &Bound<'_, PyAny>, magnitude: u32, highest: i64) -> PyResult<()> {
    let (counts, values) = (Array::of(counts)?, Array::of(values)?);
    let (room, first, from) = (counts.len(), counts.writable()?, values.contiguous()?);
    let mask = (2i64 << magnitude) - 1;
    for at in 0..values.len() {
        // SAFETY: within the array, which is held; by pointers, as both may be the same memory.
        let value = unsafe { *from.add(at) }.clamp(1, highest);
        let bucket = 64 - ((value | mask).leading_zeros()) - (magnitude + 1);
        let index = (((bucket as i64) << magnitude) + (value >> bucket)) as usize;
        if index >= room {
            return Err(PyValueError::new_err("the counters do not reach up to the highest value"));
        }
        // SAFETY: as above, and writable.
        unsafe { *first.add(index) += 1 };
    }
    Ok(())
}

/// Adds the counters of several histograms to `counts`, which are all zero, each from `skip` bytes on: numbers of 1 to 9
/// bytes, of which those below zero stand for so many zeros. The first counter that is not zero, and the one after the
/// last; `counts` are as before where that is an error.
#[pyfunction]
pub fn restore(counts: &Bound<'_, PyAny>, histograms: Vec<PyBackedBytes>, skip: usize) -> PyResult<(usize, usize)> {
    let counts = Array::of(counts)?;
    let (room, first) = (counts.len(), counts.writable()?);
    // SAFETY: the whole array, which is held and writable; nobody else has it while the interpreter's lock is held.
    let counts = unsafe { std::slice::from_raw_parts_mut(first, room) };
    let (mut low, mut high, mut total) = (room, 0, 0i64);
    for histogram in &histograms {
        let added = add(counts, histogram.get(skip..).unwrap_or_default(), &mut low, &mut high, &mut total);
        if let Err(why) = added {
            counts[low.min(high)..high].fill(0);
            return Err(PyValueError::new_err(why));
        }
    }
    Ok((low.min(high), high))
}

fn add(
    counts: &mut [i64],
    mut bytes: &[u8],
    low: &mut usize,
    high: &mut usize,
    total: &mut i64,
) -> Result<(), &'static str> {
    let mut at = 0usize;
    while !bytes.is_empty() {
        let count = number(&mut bytes).ok_or("it ends within a number")?;
        if count < 0 {
            at = at.checked_add(count.unsigned_abs() as usize).filter(|&at| at <= counts.len()).ok_or(BEYOND)?;
            continue;
        }
        let counter = counts.get_mut(at).ok_or(BEYOND)?;
        if count > 0 {
            *total = total.checked_add(count).ok_or("it counts more than there is room for")?;
            // No larger than the total.
            *counter += count;
            (*low, *high) = ((*low).min(at), (*high).max(at + 1));
        }
        at += 1;
    }
    Ok(())
}

const BEYOND: &str = "it has more counters than there are";

/// Seven bits a byte, the least first, as long as the eighth is set; of a ninth byte all bits. Signs alternate.
fn number(bytes: &mut &[u8]) -> Option<i64> {
    let mut found = 0u64;
    for place in 0..9 {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = if place < 8 { byte & 0x7f } else { byte };
        found |= u64::from(part) << (7 * place);
        if byte < 0x80 {
            break;
        }
    }
    Some((found >> 1) as i64 ^ -((found & 1) as i64))
}
