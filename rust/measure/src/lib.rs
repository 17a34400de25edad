//! The native measuring loop: clock, loops, pacing, histogram. Beside it: the packing of keys, which is in the time of
//! every engine of the record layer; the text and the hashes of its records; a search by type; kernels that measure the
//! machine itself; and an idle loop. No engine may be put here, and nothing that knows one. The module also exports the
//! system-call recorder of the crate `dyno-crash`.

mod calling;
mod clock;
mod exact;
mod histogram;
mod kernels;
mod keys;
mod marks;
mod pacing;
mod stamps;
mod steps;
mod stubs;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use clock::{Counter, Monotonic, Scale, Tsc};
use dyno_buffer::Array;
use stamps::Stamps;
use steps::{Limits, Slice};

type Answered<'py> = (Bound<'py, PyList>, Stamps);

/// Nanoseconds on the clock that stamps operations.
#[pyfunction]
fn now() -> i64 {
    let scale = Scale::now();
    scale.moment_ns(if clock::tsc() { Tsc::now() } else { Monotonic::now() })
}

/// Measures the rate of the processor's counter against the monotonic clock again. The later it is, the more exact.
#[pyfunction]
fn calibrate() {
    clock::calibrate();
}

/// Calls one operation after the other, none before the moment `start_ns`: `calls` in turn, again and again, with
/// `arguments`.
#[pyfunction]
#[pyo3(signature = (calls, arguments, deadline_ns, failed, start_ns = 0))]
fn closed<'py>(
    py: Python<'py>,
    calls: Bound<'py, PyTuple>,
    arguments: Bound<'py, PyTuple>,
    deadline_ns: i64,
    failed: Bound<'py, PyAny>,
    start_ns: i64,
) -> PyResult<Answered<'py>> {
    run(py, Slice { calls, arguments, failed }, None, start_ns, deadline_ns)
}

/// Does the same, but begins no operation before it is due. `due`: a moment for each operation, int64 in ns of `now`.
#[pyfunction]
fn paced<'py>(
    py: Python<'py>,
    calls: Bound<'py, PyTuple>,
    arguments: Bound<'py, PyTuple>,
    due: Bound<'py, PyAny>,
    deadline_ns: i64,
    failed: Bound<'py, PyAny>,
) -> PyResult<Answered<'py>> {
    let due = Array::of(&due)?.to_vec();
    if due.len() < arguments.len() {
        return Err(PyValueError::new_err("there are fewer moments than arguments"));
    }
    run(py, Slice { calls, arguments, failed }, Some(&due), 0, deadline_ns)
}

/// Keeps its core awake until the process is killed, and leaves nearly all of the core's units to its other hardware
/// thread.
#[pyfunction]
fn spin() {
    loop {
        std::hint::spin_loop();
    }
}

fn run<'py>(
    py: Python<'py>,
    slice: Slice<'py>,
    due: Option<&[i64]>,
    start_ns: i64,
    deadline_ns: i64,
) -> PyResult<Answered<'py>> {
    if slice.calls.is_empty() && !slice.arguments.is_empty() {
        return Err(PyValueError::new_err("there is nothing to call"));
    }
    let mut stamps = Stamps::with_room(slice.arguments.len());
    let limits = Limits { start: stamps.scale.ticks(start_ns), deadline: stamps.scale.ticks(deadline_ns) };
    let answers = if clock::tsc() {
        steps::steps::<Tsc>(py, &slice, due, &limits, &mut stamps)?
    } else {
        steps::steps::<Monotonic>(py, &slice, due, &limits, &mut stamps)?
    };
    Ok((answers, stamps))
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("NAME", "native")?;
    module.add("CLOCK", if clock::tsc() { "time-stamp counter" } else { "monotonic clock" })?;
    module.add_class::<Stamps>()?;
    module.add_function(wrap_pyfunction!(now, module)?)?;
    module.add_function(wrap_pyfunction!(calibrate, module)?)?;
    module.add_function(wrap_pyfunction!(closed, module)?)?;
    module.add_function(wrap_pyfunction!(paced, module)?)?;
    module.add_function(wrap_pyfunction!(exact::positions, module)?)?;
    module.add_function(wrap_pyfunction!(histogram::record, module)?)?;
    module.add_function(wrap_pyfunction!(histogram::restore, module)?)?;
    module.add_function(wrap_pyfunction!(keys::pack, module)?)?;
    module.add_function(wrap_pyfunction!(marks::marks, module)?)?;
    module.add_function(wrap_pyfunction!(stubs::stub, module)?)?;
    module.add_function(wrap_pyfunction!(spin, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::primes, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::triad, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::chase, module)?)?;
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    dyno_wire::register(module)?;
    // Elsewhere `dyno crash` cuts no power.
    #[cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]
    module.add_function(wrap_pyfunction!(dyno_crash::trace, module)?)?;
    Ok(())
}
