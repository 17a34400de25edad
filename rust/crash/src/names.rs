//! Calls on directory entries: create, rename, link and unlink.

use std::io::Result;
use std::os::unix::ffi::OsStrExt;

use crate::calls::{call_name, Pending, Recorder, CWD};
use crate::data::read_back;
use crate::filter::TMPFILE;
use crate::log::Part::*;
use crate::tracee::Tracee;
use crate::tree::{split, stat, Place};

/// RENAME_EXCHANGE and RENAME_WHITEOUT.
const EXOTIC: u64 = 0x2 | 0x4;

impl Recorder {
    pub(crate) fn place(&mut self, task: Tracee, directory: u64, address: u64) -> Option<Place> {
        let (above, name) = task.place(directory, address)?;
        Some(Place { parent: self.tree.known(&above)?, name })
    }

    /// Begins a call that adds or removes directory entries.
    pub(crate) fn begin_on_names(&mut self, task: Tracee, mut pending: Pending) -> Result<Option<Pending>> {
        let (a, number) = (pending.arguments, pending.number);
        let (old, new) = match number {
            libc::SYS_rename | libc::SYS_link => ((CWD, a[0]), Some((CWD, a[1]))),
            libc::SYS_renameat | libc::SYS_renameat2 | libc::SYS_linkat => ((a[0], a[1]), Some((a[2], a[3]))),
            libc::SYS_unlink | libc::SYS_rmdir | libc::SYS_mkdir | libc::SYS_mknod => ((CWD, a[0]), None),
            libc::SYS_unlinkat | libc::SYS_mkdirat | libc::SYS_mknodat => ((a[0], a[1]), None),
            libc::SYS_symlink => ((CWD, a[1]), None),
            libc::SYS_symlinkat => ((a[1], a[2]), None),
            // After a call that opens a file, its descriptor shows whether the file is new.
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

    pub(crate) fn opened(&mut self, task: Tracee, pending: &Pending, descriptor: u64) -> Result<()> {
        let a = pending.arguments;
        let flags = match pending.number {
            libc::SYS_open => a[1],
            libc::SYS_openat => a[2],
            libc::SYS_creat => (libc::O_CREAT | libc::O_TRUNC) as u64,
            _ => u64::from_ne_bytes(task.read(a[2], 8).try_into().unwrap_or_default()),
        };
        let Some(status) = task.stat(descriptor) else { return Ok(()) };
        if status.st_mode & libc::S_IFMT != libc::S_IFREG {
            return Ok(());
        }
        let link = format!("/proc/{}/fd/{}", task.0, descriptor);
        let Ok(path) = std::fs::read_link(link) else { return Ok(()) };
        let Some((above, name)) = split(path.as_os_str().as_bytes()) else { return Ok(()) };
        let parent = stat(&above, true).and_then(|above| self.tree.known(&above));
        let inode = (status.st_dev, status.st_ino);
        if flags & TMPFILE != 0 {
            if parent.is_some() {
                let number = self.tree.fresh(inode, None);
                self.tree.counts.remove(&number);
                return self.created(task, pending, number, None, &status, b"");
            }
            return Ok(());
        }
        let place = parent.map(|parent| Place { parent, name });
        match place {
            Some(place) if !self.tree.names.contains_key(&place) && status.st_nlink > 0 => {
                let number = self.tree.fresh(inode, Some(place.clone()));
                self.created(task, pending, number, Some(&place), &status, b"")
            }
            _ if flags & libc::O_TRUNC as u64 != 0 => match self.tree.known(&status) {
                Some(file) => self.resized(
                    task,
                    &Pending { file, ..Pending::of(pending.begin, pending.number, pending.arguments) },
                    0,
                ),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    pub(crate) fn created(
        &mut self,
        task: Tracee,
        pending: &Pending,
        number: i64,
        place: Option<&Place>,
        status: &libc::stat,
        target: &[u8],
    ) -> Result<()> {
        let kind: &[u8] = match status.st_mode & libc::S_IFMT {
            libc::S_IFDIR => b"directory",
            libc::S_IFLNK => b"symlink",
            _ => b"file",
        };
        let parts = [
            Number(number),
            Number(place.map_or(-1, |place| place.parent)),
            Text(place.map_or(b"", |place| &place.name)),
            Text(kind),
            Number((status.st_mode & 0o7777).into()),
            Number(status.st_uid.into()),
            Number(status.st_gid.into()),
            Text(target),
        ];
        self.report("create", task, pending, &parts)
    }

    /// Logs the node that mkdir, mknod or symlink created.
    pub(crate) fn log_node(&mut self, task: Tracee, pending: &mut Pending) -> Result<()> {
        let (Some(place), Some(status)) = (pending.places[0].take(), stat(&pending.paths[0], false)) else {
            return Ok(());
        };
        let kind = status.st_mode & libc::S_IFMT;
        if ![libc::S_IFDIR, libc::S_IFLNK, libc::S_IFREG].contains(&kind) {
            return Ok(());
        }
        let target = if kind == libc::S_IFLNK { task.text(pending.arguments[0]) } else { Vec::new() };
        let number = self.tree.fresh((status.st_dev, status.st_ino), Some(place.clone()));
        self.created(task, pending, number, Some(&place), &status, &target)
    }

    pub(crate) fn unlinked(&mut self, task: Tracee, pending: &mut Pending) -> Result<()> {
        let Some(place) = pending.places[0].take() else { return Ok(()) };
        let directory = pending.number == libc::SYS_rmdir
            || pending.number == libc::SYS_unlinkat && pending.arguments[2] & libc::AT_REMOVEDIR as u64 != 0;
        self.removed(task, pending, &place, if directory { "rmdir" } else { "unlink" })
    }

    pub(crate) fn removed(&mut self, task: Tracee, pending: &Pending, place: &Place, call: &str) -> Result<()> {
        let Some(number) = self.tree.take(place) else { return Ok(()) };
        let parts = [Number(number), Number(place.parent), Text(&place.name), Text(call.as_bytes())];
        self.report("unlink", task, pending, &parts)
    }

    pub(crate) fn renamed(&mut self, task: Tracee, pending: &mut Pending) -> Result<()> {
        let [old, new] = std::mem::take(&mut pending.places);
        let number = old.as_ref().and_then(|old| self.tree.names.get(old).copied());
        match (old, number, new) {
            (Some(old), Some(number), Some(new)) => {
                if self.tree.names.get(&new) == Some(&number) {
                    // rename(2) does nothing if both names are links to one file.
                    return Ok(());
                }
                self.tree.take(&old);
                self.tree.put(new.clone(), number);
                let parts =
                    [Number(number), Number(old.parent), Text(&old.name), Number(new.parent), Text(&new.name)];
                self.report("rename", task, pending, &parts)
            }
            (Some(old), Some(_), None) => self.removed(task, pending, &old, "rename"),
            (_, None, Some(new)) => self.adopted(task, pending, &new),
            _ => Ok(()),
        }
    }

    pub(crate) fn linked(&mut self, task: Tracee, pending: &mut Pending) -> Result<()> {
        let Some(new) = pending.places[1].take() else { return Ok(()) };
        let status = stat(&pending.paths[1], false);
        // Looked up by the new name: a symbolic link may have led to the old one.
        let number = status.and_then(|status| self.tree.inodes.get(&(status.st_dev, status.st_ino)).copied());
        let Some(number) = number.filter(|number| self.tree.counts.get(number) != Some(&0)) else {
            return self.adopted(task, pending, &new);
        };
        self.tree.put(new.clone(), number);
        self.report("link", task, pending, &[Number(number), Number(new.parent), Text(&new.name)])
    }

    /// Logs a file that was moved or linked from outside the roots, with its content.
    pub(crate) fn adopted(&mut self, task: Tracee, pending: &Pending, place: &Place) -> Result<()> {
        let path = &pending.paths[1];
        let Some(status) = stat(path, false) else { return Ok(()) };
        self.removed(task, pending, place, "rename")?;
        match status.st_mode & libc::S_IFMT {
            libc::S_IFREG => {}
            libc::S_IFDIR => return self.unseen(task.0, "rename", "a directory was moved here from elsewhere"),
            libc::S_IFLNK => return self.unseen(task.0, "rename", "a symbolic link was moved here from elsewhere"),
            _ => return Ok(()),
        }
        let file = self.tree.fresh((status.st_dev, status.st_ino), Some(place.clone()));
        self.created(task, pending, file, Some(place), &status, b"")?;
        let data = read_back(path, 0, status.st_size as u64);
        let parts = [Number(file), Number(0), Bytes(&data), Text(call_name(pending.number).as_bytes()), Flag(false)];
        self.report("write", task, pending, &parts)
    }
}
