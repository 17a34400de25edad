//! System calls on files below the roots: inspected when they begin, logged when they end.
//!
//! `data` handles calls on a file's bytes, `names` those on directories.

use std::io::Result;

use libc::c_long;

use crate::log::{Log, Part, NEVER};
use crate::tracee::Tracee;
use crate::tree::{stat, Place, Tree};
use Part::*;

const MARK: &[u8] = b"/dyno-mark/";
pub const CWD: u64 = libc::AT_FDCWD as u64;
/// Modes of fallocate that move data: COLLAPSE_RANGE, INSERT_RANGE, UNSHARE_RANGE.
const MOVES: u64 = 0x08 | 0x20 | 0x40;

/// A call that has begun and not ended.
#[derive(Default)]
pub struct Pending {
    pub begin: u64,
    pub number: c_long,
    pub arguments: [u64; 6],
    pub file: i64,
    /// Directory entries that the call names: the old one, then the new one.
    pub places: [Option<Place>; 2],
    pub paths: [Vec<u8>; 2],
    pub data: Vec<u8>,
    pub offset: u64,
    pub ranges: Vec<(i64, u64, u64)>,
}

pub struct Recorder {
    pub tree: Tree,
    pub log: Log,
    /// Whether a file was ever mapped shared.
    pub mapped_any: bool,
}

/// The call's name in the log.
pub fn call_name(call: c_long) -> &'static str {
    match call {
        libc::SYS_write => "write",
        libc::SYS_writev => "writev",
        libc::SYS_pwrite64 => "pwrite64",
        libc::SYS_pwritev => "pwritev",
        libc::SYS_pwritev2 => "pwritev2",
        libc::SYS_sendfile => "sendfile",
        libc::SYS_copy_file_range => "copy_file_range",
        libc::SYS_splice => "splice",
        libc::SYS_truncate => "truncate",
        libc::SYS_ftruncate => "ftruncate",
        libc::SYS_fallocate => "fallocate",
        libc::SYS_fsync => "fsync",
        libc::SYS_fdatasync => "fdatasync",
        libc::SYS_msync => "msync",
        libc::SYS_sync => "sync",
        libc::SYS_syncfs => "syncfs",
        libc::SYS_sync_file_range => "sync_file_range",
        libc::SYS_rename | libc::SYS_renameat | libc::SYS_renameat2 => "rename",
        libc::SYS_link | libc::SYS_linkat => "link",
        libc::SYS_rmdir => "rmdir",
        libc::SYS_io_setup => "io_setup",
        libc::SYS_io_uring_setup => "io_uring_setup",
        libc::SYS_ioctl => "ioctl of a reflink",
        _ => "open",
    }
}

/// Parses a mark: "/dyno-mark/12/end" is 12 and "end".
fn mark(path: &[u8]) -> Option<(i64, &[u8])> {
    let rest = path.strip_prefix(MARK)?;
    let cut = rest.iter().position(|&c| c == b'/')?;
    Some((std::str::from_utf8(&rest[..cut]).ok()?.parse().ok()?, &rest[cut + 1..]))
}

impl Pending {
    pub fn of(begin: u64, number: c_long, arguments: [u64; 6]) -> Pending {
        Pending { begin, number, arguments, ..Pending::default() }
    }
}

impl Recorder {
    pub fn new(tree: Tree, log: Log) -> Recorder {
        Recorder { tree, log, mapped_any: false }
    }

    /// Inspects a call that begins. Returns None if its end need not be seen.
    pub fn begin(&mut self, task: Tracee, number: c_long, a: [u64; 6]) -> Result<Option<Pending>> {
        let mut pending = Pending { number, arguments: a, ..Pending::default() };
        let wanted = match number {
            libc::SYS_access => return self.check_mark(task, &task.text(a[0])),
            libc::SYS_faccessat | libc::SYS_faccessat2 => return self.check_mark(task, &task.text(a[1])),
            libc::SYS_io_setup | libc::SYS_io_uring_setup => return self.refuse(task, number, libc::ENOSYS),
            libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_pwrite64
            | libc::SYS_pwritev
            | libc::SYS_pwritev2
            | libc::SYS_sendfile => self.begin_write(task, &mut pending, a[0])?,
            libc::SYS_copy_file_range | libc::SYS_splice => self.begin_write(task, &mut pending, a[2])?,
            libc::SYS_ioctl => {
                if self.file(task, a[0]).is_some() {
                    return self.refuse(task, number, libc::EOPNOTSUPP);
                }
                false
            }
            libc::SYS_fallocate if a[1] & MOVES != 0 => {
                if self.file(task, a[0]).is_some() {
                    return self.refuse(task, number, libc::EOPNOTSUPP);
                }
                false
            }
            libc::SYS_fsync | libc::SYS_fdatasync => {
                let file = self.file(task, a[0]);
                if let Some(number) = file {
                    pending.file = number;
                    self.log_stores(task.0, None)?;
                }
                file.is_some()
            }
            libc::SYS_ftruncate | libc::SYS_fallocate | libc::SYS_sync_file_range => {
                self.begin_on_file(task, &mut pending, a[0])?
            }
            libc::SYS_truncate => {
                let status = stat(&task.path(CWD, a[0]), true);
                let known = status.and_then(|status| self.tree.known(&status));
                pending.file = known.unwrap_or(-1);
                self.log_stores(task.0, known)?;
                known.is_some()
            }
            libc::SYS_sync => {
                self.log_stores(task.0, None)?;
                true
            }
            libc::SYS_syncfs => {
                let ours = task.stat(a[0]).is_some_and(|status| self.tree.ours(status.st_dev));
                if ours {
                    self.log_stores(task.0, None)?;
                }
                ours
            }
            libc::SYS_msync => self.begin_msync(task, &mut pending)?,
            libc::SYS_mmap => {
                let file = self.file(task, a[4]);
                pending.file = file.unwrap_or(-1);
                file.is_some()
            }
            libc::SYS_mprotect => self.mapped_any,
            _ => return self.begin_on_names(task, pending),
        };
        pending.begin = self.log.moment();
        Ok(wanted.then_some(pending))
    }

    pub(crate) fn check_mark(&mut self, task: Tracee, path: &[u8]) -> Result<Option<Pending>> {
        if let Some((number, which)) = mark(path) {
            self.log_stores(task.0, None)?;
            self.log.at("mark", task.0, &[Number(number), Text(which)])?;
        }
        Ok(None)
    }

    pub(crate) fn refuse(&mut self, task: Tracee, number: c_long, error: i32) -> Result<Option<Pending>> {
        task.refuse(error);
        self.log.at("refused", task.0, &[Text(call_name(number).as_bytes())])?;
        Ok(None)
    }

    pub fn unseen(&mut self, task: i32, call: &str, why: &str) -> Result<()> {
        self.log.at("unseen", task, &[Text(call.as_bytes()), Text(why.as_bytes())])
    }

    pub(crate) fn file(&mut self, task: Tracee, descriptor: u64) -> Option<i64> {
        let status = task.stat(descriptor)?;
        self.tree.known(&status)
    }

    pub(crate) fn begin_on_file(&mut self, task: Tracee, pending: &mut Pending, descriptor: u64) -> Result<bool> {
        let Some(file) = self.file(task, descriptor) else { return Ok(false) };
        pending.file = file;
        self.log_stores(task.0, Some(file))?;
        Ok(true)
    }

    /// Logs a call that ended with that result.
    pub fn end(&mut self, task: Tracee, mut pending: Pending, result: i64) -> Result<()> {
        if result < 0 {
            return Ok(());
        }
        let a = pending.arguments;
        match pending.number {
            libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_pwrite64
            | libc::SYS_pwritev
            | libc::SYS_pwritev2
            | libc::SYS_sendfile => self.wrote(task, pending, a[0], result as u64),
            libc::SYS_copy_file_range | libc::SYS_splice => self.wrote(task, pending, a[2], result as u64),
            libc::SYS_truncate | libc::SYS_ftruncate => self.resized(task, &pending, a[1]),
            libc::SYS_fallocate => self.allocated(task, &pending),
            libc::SYS_fsync | libc::SYS_fdatasync => {
                let parts = [Text(call_name(pending.number).as_bytes()), Number(pending.file), Number(0), Nothing];
                self.report("flush", task, &pending, &parts)
            }
            libc::SYS_sync | libc::SYS_syncfs => {
                let parts = [Text(call_name(pending.number).as_bytes()), Nothing, Number(0), Nothing];
                self.report("flush", task, &pending, &parts)
            }
            libc::SYS_sync_file_range => {
                self.report("hint", task, &pending, &[Text(b"sync_file_range"), Number(pending.file)])
            }
            libc::SYS_msync => self.flushed(task, &pending),
            libc::SYS_mmap => self.mapped(task, &pending),
            libc::SYS_mprotect => self.writable(task, a[0], a[0].saturating_add(a[1])),
            libc::SYS_rename | libc::SYS_renameat | libc::SYS_renameat2 => self.renamed(task, &mut pending),
            libc::SYS_link | libc::SYS_linkat => self.linked(task, &mut pending),
            libc::SYS_unlink | libc::SYS_unlinkat | libc::SYS_rmdir => self.unlinked(task, &mut pending),
            libc::SYS_mkdir
            | libc::SYS_mkdirat
            | libc::SYS_mknod
            | libc::SYS_mknodat
            | libc::SYS_symlink
            | libc::SYS_symlinkat => self.log_node(task, &mut pending),
            _ => self.opened(task, &pending, result as u64),
        }
    }

    pub(crate) fn report(&mut self, tag: &str, task: Tracee, pending: &Pending, parts: &[Part]) -> Result<()> {
        let now = self.log.moment();
        self.log.event(tag, pending.begin, now, task.0, parts)
    }

    /// Logs a write during which its thread ended: how much was written is unknown.
    pub fn abandoned(&mut self, task: i32, pending: &Pending) -> Result<()> {
        if pending.data.is_empty() {
            return Ok(());
        }
        let parts = [
            Number(pending.file),
            Number(pending.offset as i64),
            Bytes(&pending.data),
            Text(call_name(pending.number).as_bytes()),
            Flag(false),
        ];
        self.log.event("write", pending.begin, NEVER, task, &parts)
    }
}
