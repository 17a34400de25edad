//! What a call does to the files below the roots: looked at when it begins, and told when it has ended.

use std::fs::File;
use std::io::Result;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use libc::c_long;

use crate::filter::TMPFILE;
use crate::log::{Log, Part, NEVER};
use crate::tracee::Tracee;
use crate::tree::{split, stat, Mapped, Place, Tree};
use Part::*;

const MARK: &[u8] = b"/dyno-mark/";
const HERE: u64 = libc::AT_FDCWD as u64;
const RWF_APPEND: u64 = 0x10;
/// RWF_DSYNC and RWF_SYNC.
const RWF_DURABLE: u64 = 0x2 | 0x4;
/// Modes of fallocate that move what is behind: COLLAPSE_RANGE, INSERT_RANGE, UNSHARE_RANGE.
const MOVES: u64 = 0x08 | 0x20 | 0x40;
const KEEP_SIZE: u64 = 0x01;
const ZEROES: u64 = 0x02 | 0x10;
/// RENAME_EXCHANGE and RENAME_WHITEOUT.
const EXOTIC: u64 = 0x2 | 0x4;

/// A call that has begun.
#[derive(Default)]
pub struct Pending {
    begin: u64,
    number: c_long,
    arguments: [u64; 6],
    file: i64,
    /// Where the call takes names: the new one is the last.
    places: [Option<Place>; 2],
    paths: [Vec<u8>; 2],
    data: Vec<u8>,
    offset: u64,
    ranges: Vec<(i64, u64, u64)>,
}

pub struct Recorder {
    pub tree: Tree,
    pub log: Log,
    /// A file is mapped for others to see, be it only to be read.
    shared: bool,
}

fn named(call: c_long) -> &'static str {
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

/// "/dyno-mark/12/end" as 12 and "end".
fn mark(path: &[u8]) -> Option<(i64, &[u8])> {
    let rest = path.strip_prefix(MARK)?;
    let cut = rest.iter().position(|&c| c == b'/')?;
    Some((std::str::from_utf8(&rest[..cut]).ok()?.parse().ok()?, &rest[cut + 1..]))
}

impl Recorder {
    pub fn new(tree: Tree, log: Log) -> Recorder {
        Recorder { tree, log, shared: false }
    }

    /// None where its end is of no interest.
    pub fn begin(&mut self, task: Tracee, number: c_long, a: [u64; 6]) -> Result<Option<Pending>> {
        let mut pending = Pending { number, arguments: a, ..Pending::default() };
        let wanted = match number {
            libc::SYS_access => return self.asked(task, &task.text(a[0])),
            libc::SYS_faccessat | libc::SYS_faccessat2 => return self.asked(task, &task.text(a[1])),
            libc::SYS_io_setup | libc::SYS_io_uring_setup => return self.refuse(task, number, libc::ENOSYS),
            libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_pwrite64
            | libc::SYS_pwritev
            | libc::SYS_pwritev2
            | libc::SYS_sendfile => self.writes(task, &mut pending, a[0])?,
            libc::SYS_copy_file_range | libc::SYS_splice => self.writes(task, &mut pending, a[2])?,
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
                    self.look(task.0, None)?;
                }
                file.is_some()
            }
            libc::SYS_ftruncate | libc::SYS_fallocate | libc::SYS_sync_file_range => {
                self.of_file(task, &mut pending, a[0])?
            }
            libc::SYS_truncate => {
                let found = stat(&task.path(HERE, a[0]), true);
                let known = found.and_then(|found| self.tree.known(&found));
                pending.file = known.unwrap_or(-1);
                self.look(task.0, known)?;
                known.is_some()
            }
            libc::SYS_sync => {
                self.look(task.0, None)?;
                true
            }
            libc::SYS_syncfs => {
                let ours = task.stat(a[0]).is_some_and(|found| self.tree.ours(found.st_dev));
                if ours {
                    self.look(task.0, None)?;
                }
                ours
            }
            libc::SYS_msync => self.synced(task, &mut pending)?,
            libc::SYS_mmap => {
                let file = self.file(task, a[4]);
                pending.file = file.unwrap_or(-1);
                file.is_some()
            }
            libc::SYS_mprotect => self.shared,
            _ => return self.renames(task, pending),
        };
        pending.begin = self.log.moment();
        Ok(wanted.then_some(pending))
    }

    fn asked(&mut self, task: Tracee, path: &[u8]) -> Result<Option<Pending>> {
        if let Some((number, which)) = mark(path) {
            self.look(task.0, None)?;
            self.log.at("mark", task.0, &[Number(number), Text(which)])?;
        }
        Ok(None)
    }

    fn refuse(&mut self, task: Tracee, number: c_long, error: i32) -> Result<Option<Pending>> {
        task.refuse(error);
        self.log.at("refused", task.0, &[Text(named(number).as_bytes())])?;
        Ok(None)
    }

    pub fn unseen(&mut self, task: i32, call: &str, why: &str) -> Result<()> {
        self.log.at("unseen", task, &[Text(call.as_bytes()), Text(why.as_bytes())])
    }

    fn file(&mut self, task: Tracee, descriptor: u64) -> Option<i64> {
        let found = task.stat(descriptor)?;
        self.tree.known(&found)
    }

    fn of_file(&mut self, task: Tracee, pending: &mut Pending, descriptor: u64) -> Result<bool> {
        let Some(file) = self.file(task, descriptor) else { return Ok(false) };
        pending.file = file;
        self.look(task.0, Some(file))?;
        Ok(true)
    }

    fn writes(&mut self, task: Tracee, pending: &mut Pending, descriptor: u64) -> Result<bool> {
        if !self.of_file(task, pending, descriptor)? {
            return Ok(false);
        }
        let a = pending.arguments;
        pending.data = match pending.number {
            libc::SYS_write | libc::SYS_pwrite64 => task.read(a[1], a[2] as usize),
            libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => task.vectors(a[1], a[2]),
            _ => Vec::new(),
        };
        // For the case that it never ends.
        pending.offset = self.offset(task, pending, descriptor, 0).map_or(0, |(offset, _)| offset);
        Ok(true)
    }

    /// Where a call wrote that has written so many bytes, and whether they were flushed before it returned.
    fn offset(&self, task: Tracee, pending: &Pending, descriptor: u64, count: u64) -> Option<(u64, bool)> {
        let a = pending.arguments;
        let opened = task.descriptor(descriptor)?;
        let flags = if pending.number == libc::SYS_pwritev2 { a[5] } else { 0 };
        let durable = opened.flags & libc::O_DSYNC != 0 || flags & RWF_DURABLE != 0;
        let appends = opened.flags & libc::O_APPEND != 0 || flags & RWF_APPEND != 0;
        let given = match pending.number {
            libc::SYS_pwrite64 | libc::SYS_pwritev => Some(a[3]),
            libc::SYS_pwritev2 if a[3] != u64::MAX => Some(a[3]),
            libc::SYS_copy_file_range | libc::SYS_splice if a[3] != 0 => {
                let told = task.read(a[3], 8);
                Some(u64::from_ne_bytes(told.try_into().ok()?).saturating_sub(count))
            }
            _ => None,
        };
        let end = || task.stat(descriptor).map(|found| found.st_size as u64);
        let offset = match given {
            Some(given) if !appends => given,
            None if count > 0 || !appends => opened.position.saturating_sub(count),
            _ => end()?.saturating_sub(count),
        };
        Some((offset, durable))
    }

    fn synced(&mut self, task: Tracee, pending: &mut Pending) -> Result<bool> {
        let a = pending.arguments;
        for (inode, path, start, stop, _) in task.mappings(a[0], a[0].saturating_add(a[1])) {
            if let Some(file) = self.mapped_file(inode, &path) {
                pending.ranges.push((file, start, stop));
            }
        }
        if !pending.ranges.is_empty() {
            self.look(task.0, None)?;
        }
        Ok(!pending.ranges.is_empty())
    }

    /// /proc tells the inode, and a device that may be another than that of `stat`.
    fn mapped_file(&self, inode: u64, path: &[u8]) -> Option<i64> {
        let told = stat(path, true).and_then(|found| self.tree.inodes.get(&(found.st_dev, found.st_ino)));
        let alike = || self.tree.inodes.iter().find(|(known, _)| known.1 == inode).map(|(_, number)| number);
        told.or_else(alike).copied()
    }

    /// Tells what was stored through mappings of a file, or of all, since they were last looked at: as if it had been
    /// now. Nothing that was flushed since then was flushed behind it, as there is a look at all before each flush.
    pub fn look(&mut self, task: i32, file: Option<i64>) -> Result<()> {
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

    fn place(&mut self, task: Tracee, directory: u64, address: u64) -> Option<Place> {
        let (above, name) = task.place(directory, address)?;
        Some(Place { parent: self.tree.known(&above)?, name })
    }

    /// Calls that make names and take them away.
    fn renames(&mut self, task: Tracee, mut pending: Pending) -> Result<Option<Pending>> {
        let (a, number) = (pending.arguments, pending.number);
        let (old, new) = match number {
            libc::SYS_rename | libc::SYS_link => ((HERE, a[0]), Some((HERE, a[1]))),
            libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_linkat => ((a[0], a[1]), Some((a[2], a[3]))),
            libc::SYS_unlink | libc::SYS_rmdir | libc::SYS_mkdir | libc::SYS_mknod => ((HERE, a[0]), None),
            libc::SYS_unlinkat | libc::SYS_mkdirat | libc::SYS_mknodat => ((a[0], a[1]), None),
            libc::SYS_symlink => ((HERE, a[1]), None),
            libc::SYS_symlinkat => ((a[1], a[2]), None),
            // Of what opens a file, it is seen afterwards what was made.
            _ => {
                pending.begin = self.log.moment();
                return Ok(Some(pending));
            }
        };
        pending.places = [self.place(task, old.0, old.1), new.and_then(|new| self.place(task, new.0, new.1))];
        if pending.places.iter().all(Option::is_none) {
            return Ok(None);
        }
        if number == libc::SYS_renameat2 && a[4] & EXOTIC != 0 {
            return self.refuse(task, number, libc::EINVAL);
        }
        pending.paths = [task.path(old.0, old.1), new.map_or_else(Vec::new, |new| task.path(new.0, new.1))];
        pending.begin = self.log.moment();
        Ok(Some(pending))
    }

    /// Of a call that has ended with that result.
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
                let parts = [Text(named(pending.number).as_bytes()), Number(pending.file), Number(0), Nothing];
                self.told("flush", task, &pending, &parts)
            }
            libc::SYS_sync | libc::SYS_syncfs => {
                let parts = [Text(named(pending.number).as_bytes()), Nothing, Number(0), Nothing];
                self.told("flush", task, &pending, &parts)
            }
            libc::SYS_sync_file_range => {
                self.told("hint", task, &pending, &[Text(b"sync_file_range"), Number(pending.file)])
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
            | libc::SYS_symlinkat => self.made(task, &mut pending),
            _ => self.opened(task, &pending, result as u64),
        }
    }

    fn told(&mut self, tag: &str, task: Tracee, pending: &Pending, parts: &[Part]) -> Result<()> {
        let now = self.log.moment();
        self.log.event(tag, pending.begin, now, task.0, parts)
    }

    /// Of a call in which the thread ended: nobody knows what it has done.
    pub fn never(&mut self, task: i32, pending: &Pending) -> Result<()> {
        if pending.data.is_empty() {
            return Ok(());
        }
        let parts = [
            Number(pending.file),
            Number(pending.offset as i64),
            Bytes(&pending.data),
            Text(named(pending.number).as_bytes()),
            Flag(false),
        ];
        self.log.event("write", pending.begin, NEVER, task, &parts)
    }

    fn wrote(&mut self, task: Tracee, mut pending: Pending, descriptor: u64, count: u64) -> Result<()> {
        let name = named(pending.number);
        let Some((offset, durable)) = self.offset(task, &pending, descriptor, count) else {
            return self.unseen(task.0, name, "the file was closed meanwhile by another thread");
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
        self.told("write", task, &pending, &parts)
    }

    fn resized(&mut self, task: Tracee, pending: &Pending, size: u64) -> Result<()> {
        if let Some(mapped) = self.tree.mapped.get_mut(&pending.file) {
            mapped.resized(size);
        }
        let parts = [Number(pending.file), Number(size as i64), Text(named(pending.number).as_bytes())];
        self.told("resize", task, pending, &parts)
    }

    fn allocated(&mut self, task: Tracee, pending: &Pending) -> Result<()> {
        let [descriptor, mode, start, length, ..] = pending.arguments;
        let Some(found) = task.stat(descriptor) else {
            return self.unseen(task.0, "fallocate", "the file was closed meanwhile by another thread");
        };
        let size = found.st_size as u64;
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
        self.told("write", task, pending, &parts)
    }

    fn flushed(&mut self, task: Tracee, pending: &Pending) -> Result<()> {
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

    fn mapped(&mut self, task: Tracee, pending: &Pending) -> Result<()> {
        self.shared = true;
        if pending.arguments[2] & libc::PROT_WRITE as u64 != 0 {
            return self.watch(task, pending.file, &task.opened(pending.arguments[4]));
        }
        Ok(())
    }

    fn writable(&mut self, task: Tracee, low: u64, high: u64) -> Result<()> {
        for (inode, path, _, _, writable) in task.mappings(low, high) {
            if let Some(file) = self.mapped_file(inode, &path).filter(|_| writable) {
                self.watch(task, file, &path)?;
            }
        }
        Ok(())
    }

    fn watch(&mut self, task: Tracee, file: i64, path: &[u8]) -> Result<()> {
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

    // -- names -------------------------------------------------------------------------------------------------

    fn opened(&mut self, task: Tracee, pending: &Pending, descriptor: u64) -> Result<()> {
        let a = pending.arguments;
        let flags = match pending.number {
            libc::SYS_open => a[1],
            libc::SYS_openat => a[2],
            libc::SYS_creat => (libc::O_CREAT | libc::O_TRUNC) as u64,
            _ => u64::from_ne_bytes(task.read(a[2], 8).try_into().unwrap_or_default()),
        };
        let Some(found) = task.stat(descriptor) else { return Ok(()) };
        if found.st_mode & libc::S_IFMT != libc::S_IFREG {
            return Ok(());
        }
        let link = format!("/proc/{}/fd/{}", task.0, descriptor);
        let Ok(path) = std::fs::read_link(link) else { return Ok(()) };
        let Some((above, name)) = split(path.as_os_str().as_bytes()) else { return Ok(()) };
        let parent = stat(&above, true).and_then(|above| self.tree.known(&above));
        let inode = (found.st_dev, found.st_ino);
        if flags & TMPFILE != 0 {
            if parent.is_some() {
                let number = self.tree.fresh(inode, None);
                self.tree.counts.remove(&number);
                return self.created(task, pending, number, None, &found, b"");
            }
            return Ok(());
        }
        let place = parent.map(|parent| Place { parent, name });
        match place {
            Some(place) if !self.tree.names.contains_key(&place) && found.st_nlink > 0 => {
                let number = self.tree.fresh(inode, Some(place.clone()));
                self.created(task, pending, number, Some(&place), &found, b"")
            }
            _ if flags & libc::O_TRUNC as u64 != 0 => match self.tree.known(&found) {
                Some(file) => self.resized(task, &Pending { file, ..clone(pending) }, 0),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn created(
        &mut self,
        task: Tracee,
        pending: &Pending,
        number: i64,
        place: Option<&Place>,
        found: &libc::stat,
        target: &[u8],
    ) -> Result<()> {
        let kind: &[u8] = match found.st_mode & libc::S_IFMT {
            libc::S_IFDIR => b"directory",
            libc::S_IFLNK => b"symlink",
            _ => b"file",
        };
        let parts = [
            Number(number),
            Number(place.map_or(-1, |place| place.parent)),
            Text(place.map_or(b"", |place| &place.name)),
            Text(kind),
            Number((found.st_mode & 0o7777).into()),
            Number(found.st_uid.into()),
            Number(found.st_gid.into()),
            Text(target),
        ];
        self.told("create", task, pending, &parts)
    }

    /// mkdir, mknod, symlink.
    fn made(&mut self, task: Tracee, pending: &mut Pending) -> Result<()> {
        let (Some(place), Some(found)) = (pending.places[0].take(), stat(&pending.paths[0], false)) else {
            return Ok(());
        };
        let kind = found.st_mode & libc::S_IFMT;
        if ![libc::S_IFDIR, libc::S_IFLNK, libc::S_IFREG].contains(&kind) {
            return Ok(());
        }
        let target = if kind == libc::S_IFLNK { task.text(pending.arguments[0]) } else { Vec::new() };
        let number = self.tree.fresh((found.st_dev, found.st_ino), Some(place.clone()));
        self.created(task, pending, number, Some(&place), &found, &target)
    }

    fn unlinked(&mut self, task: Tracee, pending: &mut Pending) -> Result<()> {
        let Some(place) = pending.places[0].take() else { return Ok(()) };
        let directory = pending.number == libc::SYS_rmdir
            || pending.number == libc::SYS_unlinkat && pending.arguments[2] & libc::AT_REMOVEDIR as u64 != 0;
        self.gone(task, pending, &place, if directory { "rmdir" } else { "unlink" })
    }

    fn gone(&mut self, task: Tracee, pending: &Pending, place: &Place, call: &str) -> Result<()> {
        let Some(number) = self.tree.take(place) else { return Ok(()) };
        let parts = [Number(number), Number(place.parent), Text(&place.name), Text(call.as_bytes())];
        self.told("unlink", task, pending, &parts)
    }

    fn renamed(&mut self, task: Tracee, pending: &mut Pending) -> Result<()> {
        let [old, new] = std::mem::take(&mut pending.places);
        let number = old.as_ref().and_then(|old| self.tree.names.get(old).copied());
        match (old, number, new) {
            (Some(old), Some(number), Some(new)) => {
                if self.tree.names.get(&new) == Some(&number) {
                    // Two names of one file: nothing happens.
                    return Ok(());
                }
                self.tree.take(&old);
                self.tree.put(new.clone(), number);
                let parts =
                    [Number(number), Number(old.parent), Text(&old.name), Number(new.parent), Text(&new.name)];
                self.told("rename", task, pending, &parts)
            }
            (Some(old), Some(_), None) => self.gone(task, pending, &old, "rename"),
            (_, None, Some(new)) => self.adopted(task, pending, &new),
            _ => Ok(()),
        }
    }

    fn linked(&mut self, task: Tracee, pending: &mut Pending) -> Result<()> {
        let Some(new) = pending.places[1].take() else { return Ok(()) };
        let found = stat(&pending.paths[1], false);
        // It has its new name by now: only then is it certain whose inode that is.
        let number = found.and_then(|found| self.tree.inodes.get(&(found.st_dev, found.st_ino)).copied());
        let Some(number) = number.filter(|number| self.tree.counts.get(number) != Some(&0)) else {
            return self.adopted(task, pending, &new);
        };
        self.tree.put(new.clone(), number);
        self.told("link", task, pending, &[Number(number), Number(new.parent), Text(&new.name)])
    }

    /// A file that came from outside of the roots, with all that it holds.
    fn adopted(&mut self, task: Tracee, pending: &Pending, place: &Place) -> Result<()> {
        let path = &pending.paths[1];
        let Some(found) = stat(path, false) else { return Ok(()) };
        self.gone(task, pending, place, "rename")?;
        match found.st_mode & libc::S_IFMT {
            libc::S_IFREG => {}
            libc::S_IFDIR => return self.unseen(task.0, "rename", "a directory was moved here from elsewhere"),
            libc::S_IFLNK => return self.unseen(task.0, "rename", "a symbolic link was moved here from elsewhere"),
            _ => return Ok(()),
        }
        let file = self.tree.fresh((found.st_dev, found.st_ino), Some(place.clone()));
        self.created(task, pending, file, Some(place), &found, b"")?;
        let data = read_back(path, 0, found.st_size as u64);
        let parts = [Number(file), Number(0), Bytes(&data), Text(named(pending.number).as_bytes()), Flag(false)];
        self.told("write", task, pending, &parts)
    }
}

fn clone(pending: &Pending) -> Pending {
    Pending { begin: pending.begin, number: pending.number, arguments: pending.arguments, ..Pending::default() }
}

fn read_back(path: &[u8], offset: u64, count: u64) -> Vec<u8> {
    let mut data = vec![0; count as usize];
    let opened = File::open(Path::new(std::ffi::OsStr::from_bytes(path)));
    match opened.and_then(|file| file.read_exact_at(&mut data, offset)) {
        Ok(()) => data,
        Err(_) => Vec::new(),
    }
}
