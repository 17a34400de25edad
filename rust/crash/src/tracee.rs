//! A traced thread: its system call, memory and descriptors.

use std::fs;
use std::io::Error;

use libc::{c_long, c_void};

use crate::tree::{split, stat};

pub const OPTIONS: c_long = (libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_EXITKILL) as c_long;
const LONGEST_PATH: usize = 4096;
/// Linux writes at most this many bytes in one call.
const MOST: usize = 0x7fff_f000;

#[derive(Clone, Copy)]
pub struct Tracee(pub i32);

pub struct Descriptor {
    pub position: u64,
    pub flags: i32,
}

impl Tracee {
    /// Returns false if the thread is gone.
    pub fn ptrace(self, request: u32, data: c_long) -> bool {
        // SAFETY: these requests take numbers only.
        unsafe { libc::ptrace(request, self.0, std::ptr::null_mut::<c_void>(), data as *mut c_void) == 0 }
    }

    fn registers(self) -> Option<libc::user_regs_struct> {
        // SAFETY: the struct is plain data, which the call fills.
        unsafe {
            let mut registers: libc::user_regs_struct = std::mem::zeroed();
            let into = &mut registers as *mut libc::user_regs_struct;
            (libc::ptrace(libc::PTRACE_GETREGS, self.0, std::ptr::null_mut::<c_void>(), into.cast::<c_void>()) == 0)
                .then_some(registers)
        }
    }

    pub fn call(self) -> Option<(c_long, [u64; 6])> {
        let r = self.registers()?;
        Some((r.orig_rax as c_long, [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9]))
    }

    pub fn result(self) -> Option<i64> {
        Some(self.registers()?.rax as i64)
    }

    /// Skips the call at which the thread is stopped and returns an error from it.
    pub fn refuse(self, error: i32) {
        if let Some(mut registers) = self.registers() {
            registers.orig_rax = u64::MAX;
            registers.rax = -i64::from(error) as u64;
            let from = &mut registers as *mut libc::user_regs_struct;
            // SAFETY: the thread is stopped; the registers came from PTRACE_GETREGS.
            unsafe {
                libc::ptrace(libc::PTRACE_SETREGS, self.0, std::ptr::null_mut::<c_void>(), from.cast::<c_void>())
            };
        }
    }

    /// Reads memory of the thread; fewer bytes if the rest can't be read.
    pub fn read(self, address: u64, length: usize) -> Vec<u8> {
        let mut data = vec![0u8; length.min(MOST)];
        let local = libc::iovec { iov_base: data.as_mut_ptr().cast(), iov_len: data.len() };
        let remote = libc::iovec { iov_base: address as *mut c_void, iov_len: data.len() };
        // SAFETY: the kernel writes at most `data.len()` bytes to `data`.
        let count = unsafe { libc::process_vm_readv(self.0, &local, 1, &remote, 1, 0) };
        data.truncate(count.max(0) as usize);
        data
    }

    pub fn text(self, address: u64) -> Vec<u8> {
        let mut text = Vec::new();
        while text.len() < LONGEST_PATH {
            // Never across a page boundary: the next page may not be mapped.
            let at = address + text.len() as u64;
            let part = self.read(at, (256 - at % 256) as usize);
            if let Some(end) = part.iter().position(|&c| c == 0) {
                text.extend(&part[..end]);
                return text;
            }
            if part.is_empty() {
                break;
            }
            text.extend(part);
        }
        text
    }

    pub fn vectors(self, address: u64, count: u64) -> Vec<u8> {
        let list = self.read(address, 16 * count.min(1024) as usize);
        let mut data = Vec::new();
        for pair in list.chunks_exact(16) {
            let number = |at: usize| u64::from_ne_bytes(pair[at..at + 8].try_into().unwrap_or_default());
            data.extend(self.read(number(0), number(8) as usize));
        }
        data
    }

    pub fn opened(self, descriptor: u64) -> Vec<u8> {
        format!("/proc/{}/fd/{}", self.0, descriptor as i32).into_bytes()
    }

    pub fn stat(self, descriptor: u64) -> Option<libc::stat> {
        stat(&self.opened(descriptor), true)
    }

    pub fn descriptor(self, descriptor: u64) -> Option<Descriptor> {
        let text = fs::read_to_string(format!("/proc/{}/fdinfo/{}", self.0, descriptor as i32)).ok()?;
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        Some(Descriptor {
            position: value("pos:")?.parse().ok()?,
            flags: i32::from_str_radix(value("flags:")?, 8).ok()?,
        })
    }

    /// A path argument, as a path that the recorder can open.
    pub fn path(self, directory: u64, address: u64) -> Vec<u8> {
        let path = self.text(address);
        if let Some(own) = path.strip_prefix(b"/proc/self/") {
            return [format!("/proc/{}/", self.0).as_bytes(), own].concat();
        }
        if path.first() == Some(&b'/') {
            return path;
        }
        let above = if directory as i32 == libc::AT_FDCWD {
            format!("/proc/{}/cwd", self.0).into_bytes()
        } else {
            self.opened(directory)
        };
        if path.is_empty() {
            return above;
        }
        [&above[..], b"/", &path[..]].concat()
    }

    /// The directory and the name that a path argument refers to.
    pub fn place(self, directory: u64, address: u64) -> Option<(libc::stat, Vec<u8>)> {
        let (above, name) = split(&self.path(directory, address))?;
        Some((stat(&above, true)?, name))
    }

    /// Shared file mappings between two addresses: inode, path, start and stop in the file, and whether writable.
    pub fn mappings(self, low: u64, high: u64) -> Vec<(u64, Vec<u8>, u64, u64, bool)> {
        let text = fs::read(format!("/proc/{}/maps", self.0)).unwrap_or_default();
        text.split(|&c| c == b'\n').filter_map(|line| mapping(line, low, high)).collect()
    }
}

fn mapping(line: &[u8], low: u64, high: u64) -> Option<(u64, Vec<u8>, u64, u64, bool)> {
    let head = String::from_utf8_lossy(line);
    let mut words = head.split_ascii_whitespace();
    let (start, stop) = words.next()?.split_once('-')?;
    let (start, stop) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(stop, 16).ok()?);
    let rights = words.next()?.as_bytes().to_vec();
    let offset = u64::from_str_radix(words.next()?, 16).ok()?;
    let inode = words.nth(1)?.parse().ok()?;
    if start >= high || stop <= low || rights.get(3) != Some(&b's') {
        return None;
    }
    let path = line.iter().position(|&c| c == b'/').map(|at| line[at..].to_vec()).unwrap_or_default();
    let (from, to) = (low.max(start), high.min(stop));
    Some((inode, path, offset + from - start, offset + to - start, rights.get(1) == Some(&b'w')))
}

pub fn failed(doing: &str) -> String {
    format!("{doing}: {}", Error::last_os_error())
}
