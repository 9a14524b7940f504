// A pool over files of Node.js, as a browser has them: for tests of disks over pools.
import { closeSync, fsyncSync, fstatSync, ftruncateSync, mkdirSync, openSync, readSync, writeSync } from "node:fs";

export class FilePool {
  files = [];

  constructor(folder, count) {
    mkdirSync(folder, { recursive: true });
    this.folder = folder;
    this.grow(count);
  }

  grow(count) {
    while (this.files.length < count) {
      const path = `${this.folder}/${this.files.length}`;
      closeSync(openSync(path, "a"));
      this.files.push(openSync(path, "r+"));
    }
  }

  count() { return this.files.length; }
  read(file, offset, bytes) { return readSync(this.files[file], bytes, 0, bytes.length, offset); }
  write(file, offset, bytes) { writeSync(this.files[file], bytes, 0, bytes.length, offset); }
  size(file) { return fstatSync(this.files[file]).size; }
  truncate(file, size) { ftruncateSync(this.files[file], size); }
  flush(file) { fsyncSync(this.files[file]); }

  close() {
    this.files.forEach((file) => closeSync(file));
    this.files = [];
  }
}

/** A pool in memory that keeps what was flushed apart: `crashed` gives what a power cut leaves, of unflushed files either. */
export class MemoryPool {
  constructor(count = 64) {
    this.now = Array.from({ length: count }, () => new Uint8Array(0));
    this.durable = this.now.slice();
    this.calls = 0;
    this.failAt = Infinity;
    /** Whether a write to a file writes half of its bytes, and fails. */
    this.tears = () => false;
  }

  step() {
    this.calls += 1;
    if (this.calls >= this.failAt) throw Object.assign(new Error("the disk failed"), { name: "QuotaExceededError" });
  }

  count() { return this.now.length; }

  read(file, offset, bytes) {
    const found = this.now[file].subarray(offset, offset + bytes.length);
    bytes.set(found);
    return found.length;
  }

  write(file, offset, given) {
    this.step();
    const isTorn = this.tears(file);
    const bytes = isTorn ? given.subarray(0, given.length >> 1) : given;
    const old = this.now[file];
    const next = new Uint8Array(Math.max(old.length, offset + bytes.length));
    next.set(old);
    next.set(bytes, offset);
    this.now[file] = next;
    if (isTorn) throw Object.assign(new Error("there is no room"), { name: "QuotaExceededError" });
  }

  size(file) { return this.now[file].length; }

  truncate(file, size) {
    this.step();
    const next = new Uint8Array(size);
    next.set(this.now[file].subarray(0, size));
    this.now[file] = next;
  }

  flush(file) {
    this.step();
    this.durable[file] = this.now[file];
  }

  /** What a power cut leaves: of each file what was flushed, or what was written, as `chance` says. */
  crashed(chance) {
    const pool = new MemoryPool(0);
    pool.now = this.now.map((bytes, file) => (chance() < 0.5 ? bytes : this.durable[file]).slice());
    pool.durable = pool.now.slice();
    return pool;
  }
}
