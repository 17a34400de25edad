//! The clock: the processor's time-stamp counter where it may be trusted, the monotonic clock elsewhere.
//!
//! It is trusted if the processor declares the counter invariant (it neither stops nor changes its rate) and the kernel,
//! which has compared the cores' counters, keeps time by it. A reading is not fenced: the processor may move it by some
//! tens of instructions, which is its precision.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::OnceLock;

/// A count that grows at a constant rate.
pub trait Counter {
    fn now() -> u64;
}

/// The time-stamp counter.
pub struct Tsc;

/// The monotonic clock; its ticks are nanoseconds.
pub struct Monotonic;

impl Counter for Tsc {
    #[inline(always)]
    fn now() -> u64 {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: every x86-64 processor has the instruction; it touches no memory.
        unsafe {
            core::arch::x86_64::_rdtsc()
        }
        #[cfg(not(target_arch = "x86_64"))]
        Monotonic::now()
    }
}

impl Counter for Monotonic {
    #[inline(always)]
    fn now() -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes one timespec, which is ours.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}

/// Whether the time-stamp counter is used in this process.
pub fn tsc() -> bool {
    static TRUSTED: OnceLock<bool> = OnceLock::new();
    *TRUSTED.get_or_init(|| !monotonic_requested() && invariant() && used_by_kernel())
}

/// `DYNO_CLOCK=monotonic` in the environment: for users who doubt the counter, and for the tests of the other clock.
fn monotonic_requested() -> bool {
    std::env::var_os("DYNO_CLOCK").is_some_and(|clock| clock == "monotonic")
}

#[cfg(target_arch = "x86_64")]
fn invariant() -> bool {
    use core::arch::x86_64::__cpuid;
    // Leaf 0x80000007, EDX bit 8: the invariant counter (AMD's and Intel's manuals agree).
    // SAFETY: the instruction is part of x86-64; leaf 0x80000000 reports whether the other exists.
    #[allow(unused_unsafe)]
    unsafe {
        __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn invariant() -> bool {
    false
}

fn used_by_kernel() -> bool {
    std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        .is_ok_and(|source| source.trim() == "tsc")
}

/// One moment on both clocks.
#[derive(Clone, Copy)]
struct Moment {
    ticks: u64,
    ns: u64,
}

fn moment() -> Moment {
    // The narrowest of some readings of one clock between two of the other: no interrupt fell between.
    let mut best = (u64::MAX, Moment { ticks: 0, ns: 0 });
    for _ in 0..9 {
        let before = Tsc::now();
        let ns = Monotonic::now();
        let width = Tsc::now() - before;
        if width < best.0 {
            best = (width, Moment { ticks: before + width / 2, ns });
        }
    }
    best.1
}

fn origin() -> Moment {
    static ORIGIN: OnceLock<Moment> = OnceLock::new();
    *ORIGIN.get_or_init(moment)
}

/// Nanoseconds per tick, as the bits of a float.
static RATE: AtomicU64 = AtomicU64::new(0);
const SHORTEST_NS: u64 = 10_000_000;

/// Compares both clocks since the first call, which takes 10 ms. Both ends are known to about 30 ns, so that 10 ms are
/// exact to 6 parts in a million and a second to 0.06.
pub fn calibrate() {
    if !tsc() {
        return;
    }
    let first = origin();
    let mut last = moment();
    while last.ns - first.ns < SHORTEST_NS {
        last = moment();
    }
    let rate = (last.ns - first.ns) as f64 / (last.ticks - first.ticks) as f64;
    RATE.store(rate.to_bits(), Relaxed);
}

/// Converts ticks to nanoseconds and back, by the calibration at the time of its creation.
#[derive(Clone, Copy)]
pub struct Scale {
    first: Moment,
    rate: f64,
}

impl Scale {
    pub fn now() -> Scale {
        if !tsc() {
            return Scale { first: Moment { ticks: 0, ns: 0 }, rate: 1.0 };
        }
        if RATE.load(Relaxed) == 0 {
            calibrate();
        }
        Scale { first: origin(), rate: f64::from_bits(RATE.load(Relaxed)) }
    }

    /// A span of time.
    #[inline(always)]
    pub fn span_ns(&self, ticks: u64) -> i64 {
        if self.rate == 1.0 {
            ticks as i64
        } else {
            (ticks as f64 * self.rate) as i64
        }
    }

    /// A moment on the scale of the monotonic clock, from which it drifts while that clock is slewed.
    #[inline(always)]
    pub fn moment_ns(&self, ticks: u64) -> i64 {
        self.first.ns as i64 + self.span_ns(ticks.saturating_sub(self.first.ticks))
    }

    pub fn ticks(&self, ns: i64) -> u64 {
        let since = ns.saturating_sub(self.first.ns as i64).max(0);
        let ticks = if self.rate == 1.0 { since as u64 } else { (since as f64 / self.rate) as u64 };
        self.first.ticks.saturating_add(ticks)
    }

    pub fn ticks_of_span(&self, ns: u64) -> u64 {
        (ns as f64 / self.rate) as u64
    }
}
