//! Records latencies in the log-linear counters of an HdrHistogram, and restores counters from its interchange format.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;

use dyno_buffer::Array;

/// Adds the values to the counters of a histogram with the lowest value 1 and 2 << `magnitude` sub-buckets. Values are
/// clamped to 1 and `highest`.
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

/// Adds the counters of several histograms, each from `skip` bytes on, to `counts`, which are all zero. A counter has 1
/// to 9 bytes; a negative one stands for as many zeros. Returns the first non-zero counter, and the one after the last.
/// After an error `counts` are zero again.
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
            // Can't overflow, since the total did not.
            *counter += count;
            (*low, *high) = ((*low).min(at), (*high).max(at + 1));
        }
        at += 1;
    }
    Ok(())
}

const BEYOND: &str = "it has too many counters";

/// Decodes a ZigZag LEB128 number: seven bits a byte, the lowest first, while the eighth is set; all bits of a ninth.
fn number(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0u64;
    for place in 0..9 {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = if place < 8 { byte & 0x7f } else { byte };
        value |= u64::from(part) << (7 * place);
        if byte < 0x80 {
            break;
        }
    }
    Some((value >> 1) as i64 ^ -((value & 1) as i64))
}
