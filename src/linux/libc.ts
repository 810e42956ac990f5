// The C library, called through koffi. Everything here is Linux on a 64-bit little-endian machine.
import { createRequire } from 'node:module';
import { endianness } from 'node:os';
import { type ErrorCode, VringError } from '../errors.js';

/** A pointer argument: an address, or bytes whose address is meant for the time of the call. */
export type Pointer = bigint | Uint8Array | null;

/** The functions in use, as koffi shows them: 64-bit results are numbers where those are exact. */
export interface Libc {
  mmap(address: bigint, length: number, prot: number, flags: number, fd: number, offset: number): bigint;
  munmap(address: bigint, length: number): number;
  memfd_create(name: string, flags: number): number;
  eventfd(initial: number, flags: number): number;
  eventfd_write(fd: number, value: number): number;
  read(fd: number, to: Pointer, length: number): number;
  fcntl(fd: number, command: number, argument: number): number;
  socket(domain: number, type: number, protocol: number): number;
  socketpair(domain: number, type: number, protocol: number, fds: Pointer): number;
  bind(fd: number, address: Pointer, length: number): number;
  listen(fd: number, backlog: number): number;
  connect(fd: number, address: Pointer, length: number): number;
  accept4(fd: number, address: null, length: null, flags: number): number;
  recvmsg(fd: number, message: Pointer, flags: number): number;
  sendmsg(fd: number, message: Pointer, flags: number): number;
  epoll_create1(flags: number): number;
  epoll_ctl(epoll: number, operation: number, fd: number, event: Pointer): number;
  epoll_wait(epoll: number, events: Pointer, max: number, timeoutMs: number): number;
}

interface LoadedLibc extends Libc {
  /** Runs epoll_wait outside the main thread. `events` must not move: an address. */
  epollWaitLater(
    epoll: number,
    events: bigint,
    max: number,
    timeoutMs: number,
    done: (error: unknown, n: number) => void,
  ): void;
  errno(): number;
  errnoNames: Map<number, string>;
  addressOf(bytes: Uint8Array): bigint;
  /** The bytes at an address that mmap gave. */
  view(address: bigint, length: number): Uint8Array;
}

const DECLARATIONS = [
  'void *mmap(uintptr_t, size_t, int, int, int, int64_t)',
  'int munmap(void *, size_t)',
  'int memfd_create(const char *, uint)',
  'int eventfd(uint, int)',
  'int eventfd_write(int, uint64_t)',
  'long read(int, void *, size_t)',
  'int fcntl(int, int, int)',
  'int socket(int, int, int)',
  'int socketpair(int, int, int, void *)',
  'int bind(int, const void *, uint)',
  'int listen(int, int)',
  'int connect(int, const void *, uint)',
  'int accept4(int, void *, void *, int)',
  'long recvmsg(int, void *, int)',
  'long sendmsg(int, const void *, int)',
  'int epoll_create1(int)',
  'int epoll_ctl(int, int, int, void *)',
  'int epoll_wait(int, void *, int, int)',
];

let loaded: LoadedLibc | undefined;

/** @throws VringError ENOTSUP where the platform or koffi is missing */
export function libc(): LoadedLibc {
  loaded ??= load();
  return loaded;
}

function load(): LoadedLibc {
  const { platform, arch } = process;
  if (platform !== 'linux' || endianness() !== 'LE' || !['x64', 'arm64', 'riscv64', 'loong64'].includes(arch))
    throw new VringError(
      'ENOTSUP',
      `memory of other processes needs Linux on a 64-bit little-endian machine, this is ${platform} on ${arch}`,
    );
  let koffi: typeof import('koffi');
  try {
    koffi = createRequire(import.meta.url)('koffi');
  } catch (cause) {
    throw new VringError(
      'ENOTSUP',
      'memory of other processes needs the package koffi, which is not installed or does not run here: npm install koffi@3',
      { cause },
    );
  }
  const library = koffi.load(null);
  const functions = Object.fromEntries(
    DECLARATIONS.map((declaration) => {
      const name = /(\w+)\(/.exec(declaration)?.[1] as string;
      return [name, library.func(declaration)];
    }),
  );
  return {
    ...(functions as unknown as Libc),
    epollWaitLater: functions.epoll_wait.async as LoadedLibc['epollWaitLater'],
    errno: () => koffi.errno(),
    errnoNames: new Map(
      Object.entries(koffi.os.errno)
        .filter(([name]) => name !== 'EWOULDBLOCK') // the other name of EAGAIN
        .map(([name, number]) => [number, name]),
    ),
    addressOf: (bytes) => koffi.address(bytes),
    view: (address, length) => new Uint8Array(koffi.view(address, length)),
  };
}

/** What the system said, as one of our classes: what is exhausted is ENOMEM, what is refused EIO. */
const CODES: Record<string, ErrorCode> = { ENOMEM: 'ENOMEM', EMFILE: 'ENOMEM', ENFILE: 'ENOMEM' };

/** Name of the last error of a call, such as `EAGAIN`. Ask before anything else is called. */
export const errnoName = (): string => {
  const c = libc();
  const number = c.errno();
  return c.errnoNames.get(number) ?? `error ${number}`;
};

/** Throws what a failed call left in errno. */
export function failSystem(what: string): never {
  const name = errnoName();
  throw new VringError(CODES[name] ?? 'EIO', `${what} failed: ${name}`);
}

/** The result of a call that answers -1 where it fails. @throws VringError EIO, ENOMEM */
export function check(result: number, what: string): number {
  if (result < 0) failSystem(what);
  return result;
}
