import { closeSync, ftruncateSync } from 'node:fs';
import { VringError } from '../errors.js';
import { integer } from '../queue/check.js';
import { check, libc } from './libc.js';

const MFD_CLOEXEC = 1;

/**
 * Makes a file without a name, of zeros, for memory to be shared through it. It is gone when the last
 * descriptor and mapping is.
 * @param size bytes
 * @returns a descriptor, to be closed with `closeSync`
 * @throws VringError ENOTSUP, EINVAL, ENOMEM, EIO
 */
export function createMemfd(name: string, size: number): number {
  integer(size, 'size', 1, Number.MAX_SAFE_INTEGER);
  const fd = check(libc().memfd_create(name, MFD_CLOEXEC), 'memfd_create');
  try {
    ftruncateSync(fd, size);
  } catch (cause) {
    closeSync(fd);
    throw new VringError('ENOMEM', `a memory file of ${size} bytes was refused`, { cause });
  }
  return fd;
}
