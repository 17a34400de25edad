//! Latencies into the counters of an HdrHistogram: log-linear, by the same arithmetic as its interchange format.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Adds the values to the counters of a histogram whose lowest value is 1, and whose sub-buckets number
/// 2 << `magnitude`. A value is cut to 1 and to `highest`.
#[pyfunction]
pub fn record(
    py: Python<'_>,
    counts: PyBuffer<i64>,
    values: PyBuffer<i64>,
    magnitude: u32,
    highest: i64,
) -> PyResult<()> {
    let (Some(counts), Some(values)) = (counts.as_mut_slice(py), values.as_slice(py)) else {
        return Err(PyValueError::new_err("counts and values are contiguous arrays of int64, counts writable"));
    };
    let mask = (2i64 << magnitude) - 1;
    for value in values {
        let value = value.get().clamp(1, highest);
        let bucket = 64 - ((value | mask).leading_zeros()) - (magnitude + 1);
        let index = ((bucket as i64) << magnitude) + (value >> bucket);
        let Some(counter) = counts.get(index as usize) else {
            return Err(PyValueError::new_err("the counters do not reach up to the highest value"));
        };
        counter.set(counter.get() + 1);
    }
    Ok(())
}
