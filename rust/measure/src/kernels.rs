//! Kernels that measure the machine itself, each in several threads without the interpreter's lock: a search for primes,
//! the triad of STREAM (J. D. McCalpin, 1995), and a chase of pointers through a ring of cache lines. They return what
//! they computed, so that it can be checked.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::clock::{Counter, Monotonic};

/// Bytes of a cache line on common processors.
const LINE: usize = 64;
/// Hops, or elements, between two readings of the clock.
const LOOK: u64 = 4096;

/// Counts the primes from 3 to below `limit`, dividing each number by all from 2 to its root: 64-bit divisions and
/// hardly any memory.
fn count(limit: u64) -> u64 {
    let mut primes = 0;
    for candidate in 3..limit {
        let root = (candidate as f64).sqrt();
        let mut divisor = 2u64;
        while divisor as f64 <= root {
            if candidate % divisor == 0 {
                break;
            }
            divisor += 1;
        }
        if divisor as f64 > root {
            primes += 1;
        }
    }
    primes
}

/// Runs threads that begin together. Returns the time from then until the last has ended, in ns, and their results.
/// `prepare` is given the number of its thread; `work` is given what it returned and the moment at which to end.
fn together<T: Send, S: Send>(
    threads: usize,
    duration_ns: u64,
    prepare: impl Fn(usize) -> S + Sync,
    work: impl Fn(S, u64) -> T + Sync,
) -> (u64, Vec<T>) {
    let barrier = Barrier::new(threads);
    let ended: Vec<(u64, u64, T)> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|number| {
                let (barrier, prepare, work) = (&barrier, &prepare, &work);
                scope.spawn(move || {
                    let own = prepare(number);
                    barrier.wait();
                    let begin = Monotonic::now();
                    let result = work(own, begin + duration_ns);
                    (begin, Monotonic::now(), result)
                })
            })
            .collect();
        running.into_iter().map(|each| each.join().expect("a thread of a kernel does not panic")).collect()
    });
    let begin = ended.iter().map(|each| each.0).min().unwrap_or(0);
    let end = ended.iter().map(|each| each.1).max().unwrap_or(0);
    (end - begin, ended.into_iter().map(|each| each.2).collect())
}

/// Searches for the primes from 3 to below `limit`, again and again, until the time is over or each thread has done
/// `events` searches (0: no limit). Returns the time in ns; the latencies in ns of each thread's searches; and the least
/// and the largest number of primes that any search found.
#[pyfunction]
pub fn primes(
    py: Python<'_>,
    threads: usize,
    limit: u64,
    duration_ns: u64,
    events: usize,
) -> PyResult<(u64, Vec<Vec<u64>>, u64, u64)> {
    some(threads)?;
    let (elapsed, done) = py.detach(|| {
        together(
            threads,
            duration_ns,
            |_| (),
            |(), deadline| {
                let (mut latencies, mut least, mut most) = (Vec::with_capacity(1 << 16), u64::MAX, 0);
                let mut before = Monotonic::now();
                loop {
                    let primes = count(black_box(limit));
                    let now = Monotonic::now();
                    latencies.push(now - before);
                    (least, most, before) = (least.min(primes), most.max(primes), now);
                    if now >= deadline || latencies.len() == events {
                        return (latencies, least, most);
                    }
                }
            },
        )
    });
    let least = done.iter().map(|each| each.1).min().unwrap_or(0);
    let most = done.iter().map(|each| each.2).max().unwrap_or(0);
    Ok((elapsed, done.into_iter().map(|each| each.0).collect(), least, most))
}

/// Computes `a = b + 3 c` over arrays of `length` doubles, three for each thread, pass after pass. Returns the time in
/// ns, the passes of each thread, and how many elements of all arrays `a` are wrong afterwards.
#[pyfunction]
pub fn triad(py: Python<'_>, threads: usize, length: usize, duration_ns: u64) -> PyResult<(u64, Vec<u64>, u64)> {
    some(threads)?;
    some(length)?;
    // Small arrays have many passes between two readings of the clock.
    let burst = (LOOK as usize / length).max(1) as u64;
    let (elapsed, done) = py.detach(|| {
        together(
            threads,
            duration_ns,
            |_| {
                let b: Vec<f64> = (0..length).map(|at| at as f64).collect();
                let c: Vec<f64> = (0..length).map(|at| (at % 7) as f64).collect();
                (vec![0.0f64; length], b, c)
            },
            |(mut a, b, c), deadline| {
                let mut passes = 0;
                while passes == 0 || Monotonic::now() < deadline {
                    for _ in 0..burst {
                        let factor = black_box(3.0);
                        for ((to, left), right) in a.iter_mut().zip(&b).zip(&c) {
                            *to = left + factor * right;
                        }
                        black_box(&mut a);
                    }
                    passes += burst;
                }
                let wrong = (0..length).filter(|&at| a[at] != at as f64 + 3.0 * (at % 7) as f64).count() as u64;
                (passes, wrong)
            },
        )
    });
    Ok((elapsed, done.iter().map(|each| each.0).collect(), done.iter().map(|each| each.1).sum()))
}

/// A cache line whose first word is the number of the next.
#[repr(align(64))]
#[derive(Clone)]
struct Line([u64; LINE / 8]);

/// Hops from line to line of a ring of `lines`, one ring for each thread, in a random order that meets each line once
/// (Sattolo's algorithm, 1986), so that a hop can't begin before the previous one has ended. Returns the time in ns, the
/// hops of each thread, and how many rings are broken: as many hops as lines did not meet each line.
#[pyfunction]
pub fn chase(
    py: Python<'_>,
    threads: usize,
    lines: usize,
    duration_ns: u64,
    seed: u64,
) -> PyResult<(u64, Vec<u64>, u64)> {
    some(threads)?;
    some(lines)?;
    let (elapsed, done) = py.detach(|| {
        together(
            threads,
            duration_ns,
            |number| {
                let ring = ring(lines, seed.wrapping_add(number as u64));
                // The check also warms the ring up.
                let broken = whole(&ring);
                (ring, broken)
            },
            |(ring, broken), deadline| {
                let (mut at, mut hops) = (0usize, 0);
                while hops == 0 || Monotonic::now() < deadline {
                    for _ in 0..LOOK {
                        at = ring[at].0[0] as usize;
                    }
                    hops += LOOK;
                }
                black_box(at);
                (hops, broken)
            },
        )
    });
    Ok((elapsed, done.iter().map(|each| each.0).collect(), done.iter().map(|each| each.1).sum()))
}

fn ring(lines: usize, seed: u64) -> Vec<Line> {
    let mut order: Vec<u64> = (0..lines as u64).collect();
    let mut state = seed;
    for last in (1..lines).rev() {
        order.swap(last, (next(&mut state) % last as u64) as usize);
    }
    // `order` is one cycle through all lines.
    let mut ring = vec![Line([0; LINE / 8]); lines];
    for (at, to) in order.into_iter().enumerate() {
        ring[at].0[0] = to;
    }
    ring
}

/// Returns 0 if as many hops as there are lines meet each of them once and end where they began; else 1.
fn whole(ring: &[Line]) -> u64 {
    let (mut met, mut at) = (vec![false; ring.len()], 0usize);
    for _ in 0..ring.len() {
        at = ring[at].0[0] as usize;
        met[at] = true;
    }
    u64::from(at != 0 || met.contains(&false))
}

/// SplitMix64 (Steele, Lea and Flood, 2014).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

fn some(number: usize) -> PyResult<()> {
    if number == 0 {
        return Err(PyValueError::new_err("there must be at least one"));
    }
    Ok(())
}
