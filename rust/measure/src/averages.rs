//! Kernels over arrays of floats: what compiled code needs for an average, a maximum, sines, sums and a correlation.
//! They add up in doubles, in several lanes, so that the compiler may use the processor's vectors; with the
//! interpreter's lock released, each in so many threads.

use std::thread;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::buffer::{Floats, Values};

/// Sums that are made side by side: rounding stops the compiler from making them of one.
const LANES: usize = 16;

trait Float: Copy + PartialOrd + Send + Sync {
    fn double(self) -> f64;
    fn sine(self) -> Self;
}

impl Float for f32 {
    fn double(self) -> f64 {
        f64::from(self)
    }
    fn sine(self) -> f32 {
        self.sin()
    }
}

impl Float for f64 {
    fn double(self) -> f64 {
        self
    }
    fn sine(self) -> f64 {
        self.sin()
    }
}

fn folded<T: Float, S: Copy>(values: &[T], start: S, step: impl Fn(S, T) -> S) -> [S; LANES] {
    let mut lanes = [start; LANES];
    let chunks = values.chunks_exact(LANES);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = step(*lane, *value);
        }
    }
    for (lane, value) in lanes.iter_mut().zip(rest) {
        *lane = step(*lane, *value);
    }
    lanes
}

fn total<T: Float>(values: &[T]) -> f64 {
    folded(values, 0.0, |sum: f64, value| sum + value.double()).iter().sum()
}

/// Of at least one value.
fn largest<T: Float>(values: &[T]) -> f64 {
    let lanes = folded(values, values[0], |most, value| if value > most { value } else { most });
    lanes.iter().map(|lane| lane.double()).fold(f64::NEG_INFINITY, f64::max)
}

/// Of each column of rows of so many values, its sum: in lanes of whole rows.
fn column_sums<T: Float>(rows: &[T], width: usize) -> Vec<f64> {
    let mut lanes = vec![0.0; width * LANES];
    let chunks = rows.chunks_exact(width * LANES);
    let rest = chunks.remainder();
    for part in chunks.chain(std::iter::once(rest)) {
        for (lane, value) in lanes.iter_mut().zip(part) {
            *lane += value.double();
        }
    }
    (0..width).map(|column| lanes[column..].iter().step_by(width).sum()).collect()
}

/// The sums of the products of what both are away from these means: of x and y, of x and x, of y and y.
fn products<T: Float>(x: &[T], y: &[T], mean_x: f64, mean_y: f64) -> [f64; 3] {
    let mut lanes = [[0.0; LANES]; 3];
    for (xs, ys) in x.chunks(LANES).zip(y.chunks(LANES)) {
        for (at, (a, b)) in xs.iter().zip(ys).enumerate() {
            let (dx, dy) = (a.double() - mean_x, b.double() - mean_y);
            lanes[0][at] += dx * dy;
            lanes[1][at] += dx * dx;
            lanes[2][at] += dy * dy;
        }
    }
    lanes.map(|lane| lane.iter().sum())
}

/// The work of each of so many stretches of whole rows, each in a thread of its own but for a single one.
fn parts<T: Sync, R: Send>(values: &[T], width: usize, threads: usize, work: impl Fn(&[T]) -> R + Sync) -> Vec<R> {
    let rows = values.len() / width;
    let each = rows.div_ceil(threads.max(1)).max(1) * width;
    if each >= values.len() {
        return vec![work(values)];
    }
    thread::scope(|scope| {
        let running: Vec<_> = values.chunks(each).map(|part| scope.spawn(|| work(part))).collect();
        running.into_iter().map(|one| one.join().expect("a kernel does not panic")).collect()
    })
}

fn reduced<T: Float>(
    py: Python<'_>,
    found: &[T],
    threads: usize,
    work: fn(&[T]) -> f64,
    merge: fn(f64, f64) -> f64,
) -> f64 {
    let made = py.detach(|| parts(found, 1, threads, work));
    made.into_iter().reduce(merge).unwrap_or(f64::NAN)
}

/// The sum, in so many threads.
#[pyfunction]
pub fn float_sum(py: Python<'_>, array: &Bound<'_, PyAny>, threads: usize) -> PyResult<f64> {
    Ok(match Floats::of(array)?.values()? {
        Values::Single(array) => reduced(py, array, threads, total, |a, b| a + b),
        Values::Double(array) => reduced(py, array, threads, total, |a, b| a + b),
    })
}

/// The largest value.
#[pyfunction]
pub fn float_max(py: Python<'_>, array: &Bound<'_, PyAny>, threads: usize) -> PyResult<f64> {
    Ok(match Floats::of(array)?.values()? {
        Values::Single(array) => reduced(py, array, threads, largest, f64::max),
        Values::Double(array) => reduced(py, array, threads, largest, f64::max),
    })
}

/// The sum of each column of rows of so many values.
#[pyfunction]
pub fn float_sums(py: Python<'_>, rows: &Bound<'_, PyAny>, width: usize, threads: usize) -> PyResult<Vec<f64>> {
    match Floats::of(rows)?.values()? {
        Values::Single(rows) => summed(py, rows, width, threads),
        Values::Double(rows) => summed(py, rows, width, threads),
    }
}

fn summed<T: Float>(py: Python<'_>, found: &[T], width: usize, threads: usize) -> PyResult<Vec<f64>> {
    if width == 0 || found.len() % width != 0 {
        return Err(PyValueError::new_err("rows have to be of that width"));
    }
    let made = py.detach(|| parts(found, width, threads, |part| column_sums(part, width)));
    Ok(made.into_iter().fold(vec![0.0; width], |sums, part| sums.iter().zip(&part).map(|(a, b)| a + b).collect()))
}

/// The sine of each value of one array into another one, of the same type and length, which is not the first.
#[pyfunction]
pub fn float_sines(
    py: Python<'_>,
    array: &Bound<'_, PyAny>,
    into: &Bound<'_, PyAny>,
    threads: usize,
) -> PyResult<()> {
    let (from, to) = (Floats::of(array)?, Floats::of(into)?);
    let place = to.writable()?;
    let lengths = match (from.values()?, to.values()?) {
        (Values::Single(from), Values::Single(to)) => (from.len(), to.len()),
        (Values::Double(from), Values::Double(to)) => (from.len(), to.len()),
        _ => return Err(PyValueError::new_err("both arrays have to be of the same type")),
    };
    if lengths.0 != lengths.1 || from.is_at(place) {
        return Err(PyValueError::new_err("what is written into is another array, of the same length"));
    }
    // SAFETY: as the values of `to`; it is writable, another array, and no other reference to it is kept.
    unsafe {
        match from.values()? {
            Values::Single(from) => sines(py, from, std::slice::from_raw_parts_mut(place.cast(), lengths.1), threads),
            Values::Double(from) => sines(py, from, std::slice::from_raw_parts_mut(place.cast(), lengths.1), threads),
        }
    }
    Ok(())
}

fn sines<T: Float>(py: Python<'_>, found: &[T], made: &mut [T], threads: usize) {
    let length = made.len();
    let each = found.len().div_ceil(threads.max(1)).max(1);
    py.detach(|| {
        let work = |(from, to): (&[T], &mut [T])| {
            for (value, place) in from.iter().zip(to) {
                *place = value.sine();
            }
        };
        if each >= length {
            work((found, made));
            return;
        }
        thread::scope(|scope| {
            for part in found.chunks(each).zip(made.chunks_mut(each)) {
                scope.spawn(move || work(part));
            }
        });
    });
}

/// The coefficient of correlation (Pearson's), by the means first.
#[pyfunction]
pub fn float_correlation(
    py: Python<'_>,
    x: &Bound<'_, PyAny>,
    y: &Bound<'_, PyAny>,
    threads: usize,
) -> PyResult<f64> {
    match (Floats::of(x)?.values()?, Floats::of(y)?.values()?) {
        (Values::Single(x), Values::Single(y)) => correlated(py, x, y, threads),
        (Values::Double(x), Values::Double(y)) => correlated(py, x, y, threads),
        _ => Err(PyValueError::new_err("both arrays have to be of the same type")),
    }
}

fn correlated<T: Float>(py: Python<'_>, x: &[T], y: &[T], threads: usize) -> PyResult<f64> {
    if x.len() != y.len() {
        return Err(PyValueError::new_err("both arrays have to be of the same length"));
    }
    Ok(py.detach(|| {
        let mean = |of: &[T]| parts(of, 1, threads, total).into_iter().sum::<f64>() / of.len() as f64;
        let (mean_x, mean_y) = (mean(x), mean(y));
        let each = x.len().div_ceil(threads.max(1)).max(1);
        let made: Vec<[f64; 3]> = if each >= x.len() {
            vec![products(x, y, mean_x, mean_y)]
        } else {
            thread::scope(|scope| {
                let running: Vec<_> = x
                    .chunks(each)
                    .zip(y.chunks(each))
                    .map(|(xs, ys)| scope.spawn(move || products(xs, ys, mean_x, mean_y)))
                    .collect();
                running.into_iter().map(|one| one.join().expect("a kernel does not panic")).collect()
            })
        };
        let sums = made.iter().fold([0.0; 3], |sums, part| [sums[0] + part[0], sums[1] + part[1], sums[2] + part[2]]);
        sums[0] / (sums[1] * sums[2]).sqrt()
    }))
}
