// A pool of files in the browser's private file system, for a worker: tables and contexts that outlive the page.
//
// The browser opens such a file only in a promise, and lends it for calls that return at once; the engine wants both in
// one. So a pool opens its files beforehand, and varvite gives them names (`docs/design/js.md`). The browser lets nobody
// else open them meanwhile, so a pool belongs to one worker at a time.

import { Disk } from "./varvite.js";

/** What is thrown where varvite itself has no part in it. */
function fault(kind, message) {
  return Object.assign(new Error(message), { name: "VarviteError", kind });
}

async function folderOf(name) {
  if (typeof navigator === "undefined" || !navigator.storage?.getDirectory) {
    throw fault("io", "this browser has no private file system: use Disk.memory()");
  }
  const root = await navigator.storage.getDirectory();
  return root.getDirectoryHandle(name, { create: true });
}

async function lend(folder, number, name) {
  const file = await folder.getFileHandle(String(number), { create: true });
  if (!file.createSyncAccessHandle) {
    throw fault("invalid", "files are lent to workers only: open the disk in a Worker");
  }
  try {
    return await file.createSyncAccessHandle();
  } catch (error) {
    if (error.name !== "NoModificationAllowedError" && error.name !== "InvalidStateError") throw error;
    throw fault("locked", `${name} is open in another tab or worker: close it there first`);
  }
}

/** Files of the browser that are open, by their numbers. */
export class OpfsPool {
  #folder;
  #name;
  #files = [];
  #growing = Promise.resolve();
  #isClosed = false;

  constructor(folder, name) {
    this.#folder = folder;
    this.#name = name;
  }

  /** Opens the pool called `name` with all of its files, at least so many. */
  static async open(name, files) {
    const folder = await folderOf(name);
    const pool = new OpfsPool(folder, name);
    let known = 0;
    for await (const key of folder.keys()) {
      if (/^[0-9]+$/.test(key)) known = Math.max(known, Number(key) + 1);
    }
    try {
      await pool.grow(Math.max(known, files));
    } catch (error) {
      pool.close();
      throw error;
    }
    return pool;
  }

  /** Opens files until there are so many. One call after the other: two would open the same file. */
  grow(files) {
    const grown = this.#growing.then(() => this.#growTo(files));
    this.#growing = grown.catch(() => {});
    return grown;
  }

  async #growTo(files) {
    while (this.#files.length < files) {
      if (this.#isClosed) throw this.#closed();
      const file = await lend(this.#folder, this.#files.length, this.#name);
      if (this.#isClosed) {
        // Nobody else would close it, and it keeps others out.
        file.close();
        throw this.#closed();
      }
      this.#files.push(file);
    }
  }

  #closed() {
    return fault("closed", `${this.#name} was closed: open it again`);
  }

  count() {
    return this.#files.length;
  }

  read(file, offset, bytes) {
    return this.#files[file].read(bytes, { at: offset });
  }

  write(file, offset, bytes) {
    let done = 0;
    while (done < bytes.length) {
      const wrote = this.#files[file].write(bytes.subarray(done), { at: offset + done });
      if (wrote === 0) throw Object.assign(new Error("nothing was written"), { name: "QuotaExceededError" });
      done += wrote;
    }
  }

  size(file) {
    return this.#files[file].getSize();
  }

  truncate(file, size) {
    this.#files[file].truncate(size);
  }

  flush(file) {
    this.#files[file].flush();
  }

  /** Closes all files, which others may open then. */
  close() {
    this.#isClosed = true;
    for (const file of this.#files) file.close();
    this.#files = [];
  }
}

/** A disk in the browser's private file system. `disk` is what `Session.open` and `Store.open` take. */
export class OpfsDisk {
  /** What sessions and stores are opened on. */
  disk;
  #pool;

  constructor(pool, name) {
    this.#pool = pool;
    this.disk = Disk.over(pool, name);
  }

  /**
   * Opens the disk called `name`, or makes it, with at least `files` files open. In a worker only. Throws with the kind
   * "locked" when another tab or worker has it.
   */
  static async open(name, { files = 64 } = {}) {
    const pool = await OpfsPool.open(name, files);
    try {
      return new OpfsDisk(pool, name);
    } catch (error) {
      pool.close();
      throw error;
    }
  }

  /**
   * Sees to it that at least `files` files have no name. Await it between calls: a batch or a commit takes a few at most,
   * a merge of a large table some dozens. Throws with the kind "closed" when the disk is closed meanwhile.
   */
  async ready(files = 32) {
    const missing = files - this.disk.freeFiles;
    if (missing > 0) await this.#pool.grow(this.#pool.count() + missing);
  }

  /** Closes the disk. Sessions and stores on it are closed before. */
  close() {
    this.disk.release();
    this.#pool.close();
  }

  /** Removes the disk called `name` with all that it holds. */
  static async remove(name) {
    const root = await navigator.storage.getDirectory();
    await root.removeEntry(name, { recursive: true });
  }
}
