//! Latencies into the counters of an HdrHistogram: log-linear, by the same arithmetic as its interchange format.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

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
