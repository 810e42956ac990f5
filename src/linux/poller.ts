import { createEventfd, drainEventfd, signalEventfd } from './eventfd.js';
import { check, libc } from './libc.js';
import { Pages } from './pages.js';

const EPOLL_CLOEXEC = 0o2000000;
const EPOLL_CTL_ADD = 1;
const EPOLL_CTL_DEL = 2;
const EPOLLIN = 1;
const EVENTS_MAX = 64;

// x86-64 has the structure packed, other machines have not.
const EVENT_BYTES = process.arch === 'x64' ? 12 : 16;
const EVENT_DATA = process.arch === 'x64' ? 4 : 8;

/** A descriptor that is being watched. */
export interface Watch {
  /** Ends it; before the descriptor is closed. May be called again. */
  stop(): void;
}

/**
 * Waits until descriptors are readable. All of a process are in one epoll set, and one thread of koffi's
 * sleeps in it: while nothing comes, nothing runs. The event loop stays alive as long as something is
 * watched.
 */
class Poller {
  private readonly epoll: number;
  private readonly wake: number;
  private readonly events = new Pages(4096);
  /** By key, not by descriptor: a number that was closed and given out again is another one. */
  private readonly watches = new Map<number, () => void>();
  private readonly event = new Uint8Array(new ArrayBuffer(4096), 0, EVENT_BYTES);
  private nextKey = 1;
  private waiting = false;

  constructor() {
    this.epoll = check(libc().epoll_create1(EPOLL_CLOEXEC), 'epoll_create1');
    this.wake = createEventfd();
    this.control(EPOLL_CTL_ADD, this.wake, 0);
  }

  /**
   * @param ready called from the event loop as long as there is something to read; it must read it, and
   *   must not throw
   */
  watch(fd: number, ready: () => void): Watch {
    const key = this.nextKey++;
    this.control(EPOLL_CTL_ADD, fd, key);
    this.watches.set(key, ready);
    this.wait();
    return {
      stop: () => {
        if (!this.watches.delete(key)) return;
        this.control(EPOLL_CTL_DEL, fd, key);
        if (this.watches.size === 0 && this.waiting) signalEventfd(this.wake);
      },
    };
  }

  private control(operation: number, fd: number, key: number): void {
    const view = new DataView(this.event.buffer);
    view.setUint32(0, EPOLLIN, true);
    view.setUint32(EVENT_DATA, key, true);
    view.setUint32(EVENT_DATA + 4, 0, true);
    check(libc().epoll_ctl(this.epoll, operation, fd, this.event), 'epoll_ctl');
  }

  private wait(): void {
    if (this.waiting || this.watches.size === 0) return;
    this.waiting = true;
    libc().epollWaitLater(this.epoll, this.events.address, EVENTS_MAX, -1, (_error, n) => {
      this.waiting = false;
      // -1 is EINTR: nothing came.
      for (let i = 0; i < n; i++) {
        const key = this.events.view.getUint32(i * EVENT_BYTES + EVENT_DATA, true);
        if (key === 0) drainEventfd(this.wake);
        else this.watches.get(key)?.();
      }
      this.wait();
    });
  }
}

let poller: Poller | undefined;

/** Calls `ready` whenever `fd` is readable or at its end. @throws VringError ENOTSUP, EIO */
export function watchReadable(fd: number, ready: () => void): Watch {
  poller ??= new Poller();
  return poller.watch(fd, ready);
}
