//! Calls on a file's bytes: writes, sizes, flushes and shared mappings.

use std::fs::File;
use std::io::Result;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::calls::{call_name, Pending, Recorder};
use crate::log::Part::*;
use crate::tracee::Tracee;
use crate::tree::{stat, Mapped};

const CLOSED: &str = "the file was closed meanwhile by another thread";
const RWF_APPEND: u64 = 0x10;
/// RWF_DSYNC and RWF_SYNC.
const RWF_DURABLE: u64 = 0x2 | 0x4;
const KEEP_SIZE: u64 = 0x01;
/// FALLOC_FL_PUNCH_HOLE and FALLOC_FL_ZERO_RANGE.
const ZEROES: u64 = 0x02 | 0x10;

impl Recorder {
    pub(crate) fn begin_write(&mut self, task: Tracee, pending: &mut Pending, descriptor: u64) -> Result<bool> {
        if !self.begin_on_file(task, pending, descriptor)? {
            return Ok(false);
        }
        let a = pending.arguments;
        pending.data = match pending.number {
            libc::SYS_write | libc::SYS_pwrite64 => task.read(a[1], a[2] as usize),
            libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => task.vectors(a[1], a[2]),
            _ => Vec::new(),
        };
        // In case the call never ends.
        pending.offset = self.offset(task, pending, descriptor, 0).map_or(0, |(offset, _)| offset);
        Ok(true)
    }

    /// Offset at which a call wrote `count` bytes, and whether it flushed them before it returned.
    pub(crate) fn offset(&self, task: Tracee, pending: &Pending, descriptor: u64, count: u64) -> Option<(u64, bool)> {
        let a = pending.arguments;
        let opened = task.descriptor(descriptor)?;
        let flags = if pending.number == libc::SYS_pwritev2 { a[5] } else { 0 };
        let durable = opened.flags & libc::O_DSYNC != 0 || flags & RWF_DURABLE != 0;
        let appends = opened.flags & libc::O_APPEND != 0 || flags & RWF_APPEND != 0;
        let given = match pending.number {
            libc::SYS_pwrite64 | libc::SYS_pwritev => Some(a[3]),
            libc::SYS_pwritev2 if a[3] != u64::MAX => Some(a[3]),
            libc::SYS_copy_file_range | libc::SYS_splice if a[3] != 0 => {
                let position = task.read(a[3], 8);
                Some(u64::from_ne_bytes(position.try_into().ok()?).saturating_sub(count))
            }
            _ => None,
        };
        let end = || task.stat(descriptor).map(|status| status.st_size as u64);
        let offset = match given {
            Some(given) if !appends => given,
            None if count > 0 || !appends => opened.position.saturating_sub(count),
            _ => end()?.saturating_sub(count),
        };
        Some((offset, durable))
    }

    pub(crate) fn begin_msync(&mut self, task: Tracee, pending: &mut Pending) -> Result<bool> {
        let a = pending.arguments;
        for (inode, path, start, stop, _) in task.mappings(a[0], a[0].saturating_add(a[1])) {
            if let Some(file) = self.mapped_file(inode, &path) {
                pending.ranges.push((file, start, stop));
            }
        }
        if !pending.ranges.is_empty() {
            self.log_stores(task.0, None)?;
        }
        Ok(!pending.ranges.is_empty())
    }

    /// The device in /proc/PID/maps may differ from that of `stat`: if so, the inode alone decides.
    pub(crate) fn mapped_file(&self, inode: u64, path: &[u8]) -> Option<i64> {
        let by_path = stat(path, true).and_then(|status| self.tree.inodes.get(&(status.st_dev, status.st_ino)));
        let alike = || self.tree.inodes.iter().find(|(known, _)| known.1 == inode).map(|(_, number)| number);
        by_path.or_else(alike).copied()
    }

    /// Logs bytes stored through mappings of a file, or of all files, since the last call of this: as written now. That is
    /// safe, because it is called before each flush.
    pub fn log_stores(&mut self, task: i32, file: Option<i64>) -> Result<()> {
        let looked: Vec<i64> = match file {
            Some(file) => vec![file],
            None => self.tree.mapped.keys().copied().collect(),
        };
        for number in looked {
            let Some(mapped) = self.tree.mapped.get_mut(&number) else { continue };
            for (offset, data) in mapped.changes() {
                let now = self.log.moment();
                let parts = [Number(number), Number(offset as i64), Bytes(&data), Text(b"mapping"), Flag(false)];
                self.log.event("write", now, now, task, &parts)?;
            }
        }
        Ok(())
    }

    pub(crate) fn wrote(&mut self, task: Tracee, mut pending: Pending, descriptor: u64, count: u64) -> Result<()> {
        let name = call_name(pending.number);
        let Some((offset, durable)) = self.offset(task, &pending, descriptor, count) else {
            return self.unseen(task.0, name, CLOSED);
        };
        if matches!(pending.number, libc::SYS_sendfile | libc::SYS_copy_file_range | libc::SYS_splice) {
            pending.data = read_back(&task.opened(descriptor), offset, count);
        }
        pending.data.truncate(count as usize);
        if pending.data.len() as u64 != count {
            return self.unseen(task.0, name, "what it wrote could not be read");
        }
        if let Some(mapped) = self.tree.mapped.get_mut(&pending.file) {
            mapped.wrote(offset, &pending.data);
        }
        let parts =
            [Number(pending.file), Number(offset as i64), Bytes(&pending.data), Text(name.as_bytes()), Flag(durable)];
        self.report("write", task, &pending, &parts)
    }

    pub(crate) fn resized(&mut self, task: Tracee, pending: &Pending, size: u64) -> Result<()> {
        if let Some(mapped) = self.tree.mapped.get_mut(&pending.file) {
            mapped.resized(size);
        }
        let parts = [Number(pending.file), Number(size as i64), Text(call_name(pending.number).as_bytes())];
        self.report("resize", task, pending, &parts)
    }

    pub(crate) fn allocated(&mut self, task: Tracee, pending: &Pending) -> Result<()> {
        let [descriptor, mode, start, length, ..] = pending.arguments;
        let Some(status) = task.stat(descriptor) else {
            return self.unseen(task.0, "fallocate", CLOSED);
        };
        let size = status.st_size as u64;
        if mode & KEEP_SIZE == 0 && start + length == size {
            self.resized(task, pending, size)?;
        }
        let stop = (start + length).min(size);
        if mode & ZEROES == 0 || start >= stop {
            return Ok(());
        }
        let data = vec![0; (stop - start) as usize];
        if let Some(mapped) = self.tree.mapped.get_mut(&pending.file) {
            mapped.wrote(start, &data);
        }
        let parts = [Number(pending.file), Number(start as i64), Bytes(&data), Text(b"fallocate"), Flag(false)];
        self.report("write", task, pending, &parts)
    }

    pub(crate) fn flushed(&mut self, task: Tracee, pending: &Pending) -> Result<()> {
        let now = self.log.moment();
        for &(file, start, stop) in &pending.ranges {
            if pending.arguments[2] & libc::MS_SYNC as u64 != 0 {
                let parts = [Text(b"msync"), Number(file), Number(start as i64), Number(stop as i64)];
                self.log.event("flush", pending.begin, now, task.0, &parts)?;
            } else {
                let parts = [Text(b"msync(MS_ASYNC)"), Number(file)];
                self.log.event("hint", pending.begin, now, task.0, &parts)?;
            }
        }
        Ok(())
    }

    pub(crate) fn mapped(&mut self, task: Tracee, pending: &Pending) -> Result<()> {
        self.mapped_any = true;
        if pending.arguments[2] & libc::PROT_WRITE as u64 != 0 {
            return self.watch(task, pending.file, &task.opened(pending.arguments[4]));
        }
        Ok(())
    }

    pub(crate) fn writable(&mut self, task: Tracee, low: u64, high: u64) -> Result<()> {
        for (inode, path, _, _, writable) in task.mappings(low, high) {
            if let Some(file) = self.mapped_file(inode, &path).filter(|_| writable) {
                self.watch(task, file, &path)?;
            }
        }
        Ok(())
    }

    pub(crate) fn watch(&mut self, task: Tracee, file: i64, path: &[u8]) -> Result<()> {
        if self.tree.mapped.contains_key(&file) {
            return Ok(());
        }
        match File::open(Path::new(std::ffi::OsStr::from_bytes(path))) {
            Ok(opened) => {
                self.tree.mapped.insert(file, Mapped::new(opened));
                Ok(())
            }
            Err(_) => self.unseen(task.0, "mmap", "a file that is mapped to be written could not be read"),
        }
    }
}

/// The bytes of a file as they are now; none if they can't be read.
pub fn read_back(path: &[u8], offset: u64, count: u64) -> Vec<u8> {
    let mut data = vec![0; count as usize];
    let opened = File::open(Path::new(std::ffi::OsStr::from_bytes(path)));
    match opened.and_then(|file| file.read_exact_at(&mut data, offset)) {
        Ok(()) => data,
        Err(_) => Vec::new(),
    }
}
