import { closeSync, lstatSync, unlinkSync } from 'node:fs';
import { VringError } from '../errors.js';
import { check, errnoName, failSystem, libc } from './libc.js';
import { Pages } from './pages.js';

const AF_UNIX = 1;
const SOL_SOCKET = 1;
const SCM_RIGHTS = 1;
/** SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK */
const STREAM = 1 | 0o2000000 | 0o4000;
const MSG_NOSIGNAL = 0x4000;
const MSG_CTRUNC = 0x8;
const MSG_CMSG_CLOEXEC = 0x40000000;
const BACKLOG = 4;
const PATH_MAX = 107;

/** Most descriptors in one message (vhost-user: one for each memory region). */
export const DESCRIPTORS_MAX = 8;
/** Most bytes in one call. */
export const CHUNK_MAX = 2048;

// A message for sendmsg and recvmsg, in one page: msghdr, one iovec, control data, then the bytes.
const IOVEC = 64;
const CONTROL = 128;
const CMSG_HEADER = 16;
const CONTROL_MAX = CMSG_HEADER + DESCRIPTORS_MAX * 4;
const BYTES = 1024;

let page: Pages | undefined;

/** Lays out the message. @returns its view */
function message(length: number, control: number): Pages {
  page ??= new Pages(BYTES + CHUNK_MAX);
  const { view, address } = page;
  view.setBigUint64(0, 0n, true); // msg_name
  view.setUint32(8, 0, true); // msg_namelen
  view.setBigUint64(16, address + BigInt(IOVEC), true);
  view.setBigUint64(24, 1n, true); // msg_iovlen
  view.setBigUint64(32, control === 0 ? 0n : address + BigInt(CONTROL), true);
  view.setBigUint64(40, BigInt(control), true);
  view.setInt32(48, 0, true); // msg_flags
  view.setBigUint64(IOVEC, address + BigInt(BYTES), true);
  view.setBigUint64(IOVEC + 8, BigInt(length), true);
  return page;
}

/** What came in one call. */
export interface Chunk {
  /** Empty at the end of the stream. */
  bytes: Uint8Array;
  /** Belong to the receiver, who closes them. */
  fds: number[];
}

/**
 * Takes what there is, with its descriptors.
 * @param max bytes, up to CHUNK_MAX
 * @returns undefined if nothing has come
 * @throws VringError EIO; EPROTO if there were more descriptors than DESCRIPTORS_MAX, which are closed
 */
export function receive(fd: number, max: number): Chunk | undefined {
  const { view, bytes, address } = message(Math.min(max, CHUNK_MAX), CONTROL_MAX);
  const got = libc().recvmsg(fd, address, MSG_CMSG_CLOEXEC);
  if (got < 0) {
    const name = errnoName();
    if (name === 'EAGAIN' || name === 'EINTR') return undefined;
    if (name === 'ECONNRESET') return { bytes: new Uint8Array(0), fds: [] };
    throw new VringError('EIO', `recvmsg failed: ${name}`);
  }
  const fds: number[] = [];
  const control = Number(view.getBigUint64(40, true));
  if (control >= CMSG_HEADER && view.getInt32(CONTROL + 8, true) === SOL_SOCKET) {
    const length = Number(view.getBigUint64(CONTROL, true));
    if (view.getInt32(CONTROL + 12, true) === SCM_RIGHTS)
      for (let at = CMSG_HEADER; at + 4 <= length; at += 4) fds.push(view.getInt32(CONTROL + at, true));
  }
  if (view.getInt32(48, true) & MSG_CTRUNC) {
    for (const one of fds) closeSync(one);
    throw new VringError('EPROTO', `a message has more than ${DESCRIPTORS_MAX} descriptors`);
  }
  return { bytes: bytes.slice(BYTES, BYTES + got), fds };
}

/**
 * Sends all of a message at once.
 * @throws VringError EIO if the other side is gone, or does not read what it is sent
 */
export function send(fd: number, data: Uint8Array, fds: readonly number[] = []): void {
  if (data.length > CHUNK_MAX || fds.length > DESCRIPTORS_MAX)
    throw new Error(`invariant: ${data.length} bytes, ${fds.length} descriptors in one message`);
  const { view, bytes, address } = message(data.length, fds.length === 0 ? 0 : CMSG_HEADER + padded(fds));
  bytes.set(data, BYTES);
  view.setBigUint64(CONTROL, BigInt(CMSG_HEADER + fds.length * 4), true);
  view.setInt32(CONTROL + 8, SOL_SOCKET, true);
  view.setInt32(CONTROL + 12, SCM_RIGHTS, true);
  fds.forEach((one, i) => {
    view.setInt32(CONTROL + CMSG_HEADER + i * 4, one, true);
  });
  const sent = libc().sendmsg(fd, address, MSG_NOSIGNAL);
  if (sent === data.length) return;
  const name = sent < 0 ? errnoName() : 'EAGAIN';
  throw new VringError(
    'EIO',
    name === 'EAGAIN' ? 'the other side does not read its messages' : `sendmsg failed: ${name}`,
  );
}

const padded = (fds: readonly number[]): number => Math.ceil((fds.length * 4) / 8) * 8;

function socketAddress(path: string): Uint8Array {
  const name = new TextEncoder().encode(path);
  if (name.length === 0 || name.length > PATH_MAX || name.includes(0))
    throw new VringError('EINVAL', `socket path of ${name.length} bytes: 1 to ${PATH_MAX} are possible`);
  const address = new Uint8Array(2 + name.length + 1);
  address[0] = AF_UNIX;
  address.set(name, 2);
  return address;
}

const newSocket = (): number => check(libc().socket(AF_UNIX, STREAM, 0), 'socket');

/** A connected pair of stream sockets. */
export function socketPair(): [number, number] {
  const pair = new Pages(4096);
  try {
    check(libc().socketpair(AF_UNIX, STREAM, 0, pair.address), 'socketpair');
    return [pair.view.getInt32(0, true), pair.view.getInt32(4, true)];
  } finally {
    pair.free();
  }
}

/** @returns a connected socket, or undefined if nobody listens at `path` now. @throws VringError EINVAL, EIO */
export function connectTo(path: string): number | undefined {
  const address = socketAddress(path);
  const fd = newSocket();
  if (libc().connect(fd, address, address.length) === 0) return fd;
  const name = errnoName();
  closeSync(fd);
  if (name === 'ECONNREFUSED' || name === 'ENOENT' || name === 'EAGAIN') return undefined;
  throw new VringError('EIO', `connecting to ${path} failed: ${name}`);
}

/**
 * Listens at `path`. A socket that a dead process left behind is replaced.
 * @throws VringError EINVAL if somebody listens there already or it is no socket; EIO
 */
export function listenAt(path: string): number {
  const address = socketAddress(path);
  const there = lstatSync(path, { throwIfNoEntry: false });
  if (there !== undefined) {
    if (!there.isSocket()) throw new VringError('EINVAL', `${path} is there and is no socket: remove it`);
    const other = connectTo(path);
    if (other !== undefined) {
      closeSync(other);
      throw new VringError('EINVAL', `somebody listens at ${path}: choose another path`);
    }
    unlinkSync(path);
  }
  const fd = newSocket();
  try {
    if (libc().bind(fd, address, address.length) < 0) failSystem(`binding to ${path}`);
    check(libc().listen(fd, BACKLOG), 'listen');
    return fd;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

/** @returns a connection, or undefined if there is none any more */
export function accept(fd: number): number | undefined {
  const connection = libc().accept4(fd, null, null, STREAM & ~1);
  if (connection >= 0) return connection;
  const name = errnoName();
  if (name === 'EAGAIN' || name === 'ECONNABORTED' || name === 'EINTR') return undefined;
  throw new VringError('EIO', `accept failed: ${name}`);
}
