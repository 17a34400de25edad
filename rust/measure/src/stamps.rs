//! The stamps of one slice: stored as ticks while the clock runs, converted to nanoseconds afterwards.

use std::cell::RefCell;

use dyno_buffer::column;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;

use crate::clock::Scale;

thread_local! {
    /// The last slice's memory, reused so that the next slice causes no page faults while the clock runs.
    static SPARE: RefCell<Vec<(u64, u64)>> = const { RefCell::new(Vec::new()) };
}

/// When each operation began and ended.
#[pyclass]
pub struct Stamps {
    pub pairs: Vec<(u64, u64)>,
    pub scale: Scale,
}

impl Stamps {
    pub fn with_room(operations: usize) -> Stamps {
        let mut pairs = SPARE.take();
        pairs.clear();
        pairs.reserve(operations);
        Stamps { pairs, scale: Scale::now() }
    }
}

impl Drop for Stamps {
    fn drop(&mut self) {
        SPARE.set(std::mem::take(&mut self.pairs));
    }
}

#[pymethods]
impl Stamps {
    /// Returns starts and ends as int64, in ns on the loop's clock.
    fn resolve<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyByteArray>, Bound<'py, PyByteArray>)> {
        let pick = |side: fn(&(u64, u64)) -> u64| {
            column(py, self.pairs.iter().map(move |pair| self.scale.moment_ns(side(pair))))
        };
        Ok((pick(|pair| pair.0)?, pick(|pair| pair.1)?))
    }
}
