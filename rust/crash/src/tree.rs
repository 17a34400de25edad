//! Names and numbers of the files below the roots, and snapshots of files that are mapped writable.

use std::collections::HashMap;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

pub const PAGE: u64 = 4096;
const CHUNK: u64 = 64 * PAGE;

pub type Inode = (u64, u64);

/// A name in a directory below the roots.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Place {
    pub parent: i64,
    pub name: Vec<u8>,
}

#[derive(Default)]
pub struct Tree {
    pub inodes: HashMap<Inode, i64>,
    pub names: HashMap<Place, i64>,
    /// Number of names of each file.
    pub counts: HashMap<i64, i64>,
    pub mapped: HashMap<i64, Mapped>,
    next: i64,
}

impl Tree {
    pub fn add(&mut self, inode: Inode, number: i64, place: Option<Place>) {
        self.next = self.next.max(number + 1);
        self.inodes.insert(inode, number);
        if let Some(place) = place {
            self.put(place, number);
        }
    }

    /// Gives a new file its number.
    pub fn fresh(&mut self, inode: Inode, place: Option<Place>) -> i64 {
        let number = self.next;
        self.add(inode, number, place);
        number
    }

    pub fn put(&mut self, place: Place, number: i64) {
        self.take(&place);
        self.names.insert(place, number);
        *self.counts.entry(number).or_default() += 1;
    }

    pub fn take(&mut self, place: &Place) -> Option<i64> {
        let number = self.names.remove(place)?;
        *self.counts.entry(number).or_default() -= 1;
        Some(number)
    }

    /// The number of a file by its `stat`. The inode of a file that has lost all its names may have been reused.
    pub fn known(&mut self, stat: &libc::stat) -> Option<i64> {
        let inode = (stat.st_dev, stat.st_ino);
        let number = *self.inodes.get(&inode)?;
        if self.counts.get(&number) == Some(&0) && stat.st_nlink > 0 {
            self.inodes.remove(&inode);
            return None;
        }
        Some(number)
    }

    pub fn ours(&self, device: u64) -> bool {
        self.inodes.keys().any(|inode| inode.0 == device)
    }
}

/// A mapped file. Stores make no system call, so its bytes are compared with a snapshot.
pub struct Mapped {
    file: File,
    pages: HashMap<u64, Vec<u8>>,
}

impl Mapped {
    pub fn new(file: File) -> Mapped {
        let mut mapped = Mapped { file, pages: HashMap::new() };
        mapped.changes();
        mapped
    }

    /// Bytes that changed since the last call: an offset and data for each changed page.
    pub fn changes(&mut self) -> Vec<(u64, Vec<u8>)> {
        let mut changes = Vec::new();
        let size = self.file.metadata().map_or(0, |facts| facts.len());
        let mut buffer = vec![0u8; CHUNK as usize];
        let mut at = 0;
        while let Some((low, high)) = self.extent(at, size) {
            let mut start = low / PAGE * PAGE;
            while start < high {
                let wanted = CHUNK.min(size - start) as usize;
                let length = self.file.read_at(&mut buffer[..wanted], start).unwrap_or(0);
                if length == 0 {
                    break;
                }
                for (number, page) in buffer[..length].chunks(PAGE as usize).enumerate() {
                    changes.extend(self.compare(start + number as u64 * PAGE, page));
                }
                start += CHUNK;
            }
            at = high.max(start);
        }
        changes
    }

    /// The next range that is not a hole.
    fn extent(&self, at: u64, size: u64) -> Option<(u64, u64)> {
        if at >= size {
            return None;
        }
        let descriptor = self.file.as_raw_fd();
        // SAFETY: this only moves the position of a descriptor we own.
        let (low, high) = unsafe {
            let low = libc::lseek(descriptor, at as i64, libc::SEEK_DATA);
            (low, if low < 0 { low } else { libc::lseek(descriptor, low, libc::SEEK_HOLE) })
        };
        (low >= 0 && high > low).then_some((low as u64, (high as u64).min(size)))
    }

    fn compare(&mut self, offset: u64, page: &[u8]) -> Option<(u64, Vec<u8>)> {
        let old = self.pages.entry(offset).or_insert_with(|| vec![0; PAGE as usize]);
        if old[..page.len()] == *page {
            return None;
        }
        let first = old.iter().zip(page).position(|(a, b)| a != b)?;
        let last = page.len() - old[..page.len()].iter().zip(page).rev().position(|(a, b)| a != b)?;
        old[..page.len()].copy_from_slice(page);
        Some((offset + first as u64, page[first..last].to_vec()))
    }

    pub fn wrote(&mut self, offset: u64, data: &[u8]) {
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let inside = (at % PAGE) as usize;
            let length = (PAGE as usize - inside).min(data.len() - done);
            let page = self.pages.entry(at - inside as u64).or_insert_with(|| vec![0; PAGE as usize]);
            page[inside..inside + length].copy_from_slice(&data[done..done + length]);
            done += length;
        }
    }

    pub fn resized(&mut self, size: u64) {
        self.pages.retain(|&offset, _| offset < size);
        if let Some(page) = self.pages.get_mut(&(size / PAGE * PAGE)) {
            page[(size % PAGE) as usize..].fill(0);
        }
    }
}

pub fn text(path: &[u8]) -> Option<CString> {
    CString::new(path).ok()
}

/// `follow`: whether to follow a symbolic link at the path's end.
pub fn stat(path: &[u8], follow: bool) -> Option<libc::stat> {
    let path = text(path)?;
    let flags = if follow { 0 } else { libc::AT_SYMLINK_NOFOLLOW };
    // SAFETY: the struct is plain data, which the call fills.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        (libc::fstatat(libc::AT_FDCWD, path.as_ptr(), &mut status, flags) == 0).then_some(status)
    }
}

/// Splits a path into its directory and last name.
pub fn split(path: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let end = path.iter().rposition(|&c| c != b'/')? + 1;
    let cut = path[..end].iter().rposition(|&c| c == b'/')?;
    Some((path[..cut + 1].to_vec(), path[cut + 1..end].to_vec()))
}
