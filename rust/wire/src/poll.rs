//! Waiting: for events of many sockets, and for a moment.

use std::io::{Error, ErrorKind};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A sleep wakes late: this long before the start, spin on the clock instead.
pub const AWAKE_NS: i64 = 120_000;

/// Nanoseconds of the monotonic clock.
pub fn now() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec, which is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

pub fn sleep(ns: i64) {
    let time = libc::timespec { tv_sec: (ns / 1_000_000_000) as _, tv_nsec: (ns % 1_000_000_000) as _ };
    // SAFETY: both pointers are valid for the call or null. A signal ends it early; the caller checks the clock again.
    unsafe { libc::nanosleep(&time, std::ptr::null_mut()) };
}

/// Tells the kernel not to delay this thread's sleeps, which it does by 50 µs to join wake-ups.
pub fn exact_sleeps() {
    // SAFETY: this option takes one number and touches no memory.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_u64) };
}

/// Receives what has arrived. None: nothing has.
pub fn receive(descriptor: RawFd, into: &mut [u8], wait: bool) -> Result<Option<usize>, Error> {
    let flags = if wait { 0 } else { libc::MSG_DONTWAIT };
    // SAFETY: a buffer that is valid for the call.
    let count = unsafe { libc::recv(descriptor, into.as_mut_ptr().cast(), into.len(), flags) };
    if count >= 0 {
        return Ok(Some(count as usize));
    }
    let error = Error::last_os_error();
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(None),
        _ => Err(error),
    }
}

/// Makes calls on a socket wait. Returns its flags before.
pub fn block(descriptor: RawFd) -> Result<libc::c_int, Error> {
    // SAFETY: no pointers.
    let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFL) };
    // SAFETY: as above.
    if flags < 0 || unsafe { libc::fcntl(descriptor, libc::F_SETFL, flags & !libc::O_NONBLOCK) } < 0 {
        return Err(Error::last_os_error());
    }
    Ok(flags)
}

/// An event of a socket, which the number stands for.
#[derive(Clone, Copy)]
pub struct Event {
    pub number: usize,
    pub readable: bool,
    pub writable: bool,
}

/// Waits for events of many sockets.
pub struct Poll {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Poll {
    /// `most`: how many events one wait may return.
    pub fn new(most: usize) -> Result<Poll, Error> {
        // SAFETY: no pointers; the result is checked and then owned once.
        let epoll = unsafe {
            let descriptor = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            if descriptor < 0 {
                return Err(Error::last_os_error());
            }
            OwnedFd::from_raw_fd(descriptor)
        };
        Ok(Poll { epoll, events: vec![libc::epoll_event { events: 0, u64: 0 }; most.max(1)] })
    }

    /// Watches a socket for what can be read, and for room to write if `write`. It is forgotten when it is closed.
    pub fn add(&self, descriptor: RawFd, number: usize, write: bool) -> Result<(), Error> {
        self.control(libc::EPOLL_CTL_ADD, descriptor, number, write)
    }

    pub fn change(&self, descriptor: RawFd, number: usize, write: bool) -> Result<(), Error> {
        self.control(libc::EPOLL_CTL_MOD, descriptor, number, write)
    }

    fn control(&self, action: libc::c_int, descriptor: RawFd, number: usize, write: bool) -> Result<(), Error> {
        let interest = libc::EPOLLIN | if write { libc::EPOLLOUT } else { 0 };
        let mut event = libc::epoll_event { events: interest as u32, u64: number as u64 };
        // SAFETY: a structure that is valid for the call.
        match unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), action, descriptor, &mut event) } {
            0 => Ok(()),
            _ => Err(Error::last_os_error()),
        }
    }

    /// Waits for at most `ns` until a socket is ready. Returns how many events there are.
    pub fn wait(&mut self, ns: i64) -> usize {
        let time = libc::timespec { tv_sec: (ns / 1_000_000_000) as _, tv_nsec: (ns % 1_000_000_000) as _ };
        let (epoll, events) = (self.epoll.as_raw_fd(), self.events.as_mut_ptr());
        let most = self.events.len() as libc::c_int;
        // SAFETY: the buffers are valid for the call, the mask is null. A kernel before 5.11 has no such call.
        let mut count = unsafe {
            libc::syscall(libc::SYS_epoll_pwait2, epoll, events, most, &time, std::ptr::null::<libc::sigset_t>(), 0)
        };
        if count < 0 && Error::last_os_error().raw_os_error() == Some(libc::ENOSYS) {
            // SAFETY: as above.
            count = unsafe { libc::epoll_wait(epoll, events, most, (ns / 1_000_000) as libc::c_int) }.into();
        }
        count.max(0) as usize
    }

    /// One of the events of the last wait.
    pub fn event(&self, at: usize) -> Event {
        let libc::epoll_event { events, u64: number } = self.events[at];
        let write = libc::EPOLLOUT as u32;
        Event { number: number as usize, readable: events & !write != 0, writable: events & write != 0 }
    }
}
