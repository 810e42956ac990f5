import { readlinkSync } from 'node:fs';
import { VringError } from '../errors.js';
import { check, errnoName, failSystem, libc } from './libc.js';

const EFD_CLOEXEC = 0o2000000;
const EFD_NONBLOCK = 0o4000;
const F_GETFL = 3;
const F_SETFL = 4;
const O_NONBLOCK = 0o4000;

const value = new Uint8Array(new ArrayBuffer(4096), 0, 8);

/** Makes an event descriptor that never blocks; to be closed with `closeSync`. @throws VringError ENOTSUP, ENOMEM */
export const createEventfd = (): number => check(libc().eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), 'eventfd');

/**
 * Makes sure that a descriptor from somebody else is an event descriptor, and that neither reading nor
 * writing it can block this process.
 * @throws VringError EPROTO
 */
export function adoptEventfd(fd: number): void {
  const target = readlinkSync(`/proc/self/fd/${fd}`);
  if (target !== 'anon_inode:[eventfd]')
    throw new VringError('EPROTO', `descriptor ${fd} is ${target}: kick, call and err must be eventfds`);
  const c = libc();
  const flags = check(c.fcntl(fd, F_GETFL, 0), 'fcntl');
  if ((flags & O_NONBLOCK) === 0) check(c.fcntl(fd, F_SETFL, flags | O_NONBLOCK), 'fcntl');
}

/** Signals. A counter that is full has been signalled already. @throws VringError EIO */
export function signalEventfd(fd: number): void {
  if (libc().eventfd_write(fd, 1) < 0 && errnoName() !== 'EAGAIN') failSystem('writing an event descriptor');
}

/** Takes the signals that have come. @returns whether there was one. @throws VringError EIO */
export function drainEventfd(fd: number): boolean {
  if (libc().read(fd, value, 8) === 8) return true;
  if (errnoName() !== 'EAGAIN') failSystem('reading an event descriptor');
  return false;
}
