import { Disk, Pool } from "./varvite.js";

/** Files of the browser that are open, by their numbers. */
export class OpfsPool implements Pool {
  private constructor();
  /** Opens the pool called `name` with all of its files, at least so many. */
  static open(name: string, files: number): Promise<OpfsPool>;
  /** Opens files until there are so many. Throws with the kind "closed" when the pool is closed meanwhile. */
  grow(files: number): Promise<void>;
  count(): number;
  read(file: number, offset: number, bytes: Uint8Array): number;
  write(file: number, offset: number, bytes: Uint8Array): void;
  size(file: number): number;
  truncate(file: number, size: number): void;
  flush(file: number): void;
  /** Closes all files, which others may open then. */
  close(): void;
}

/** A disk in the browser's private file system. `disk` is what `Session.open` and `Store.open` take. */
export class OpfsDisk {
  private constructor();
  /** What sessions and stores are opened on. */
  readonly disk: Disk;
  /** Opens the disk called `name`, or makes it, with at least `files` files open (64 unless said). In a worker only. */
  static open(name: string, options?: { files?: number }): Promise<OpfsDisk>;
  /** Sees to it that at least `files` files have no name (32 unless said). Await it between calls. Throws with the kind "closed" when the disk is closed meanwhile. */
  ready(files?: number): Promise<void>;
  /** Closes the disk. Sessions and stores on it are closed before. */
  close(): void;
  /** Removes the disk called `name` with all that it holds. */
  static remove(name: string): Promise<void>;
}
