import type { DeviceQueue } from '../queue/device-queue.js';
import type { Areas } from '../queue/queue.js';

/** What the front-end said about one queue, and the queue if it runs. Descriptors are -1 where there is none. */
export class Vring {
  size = 0;
  /** Where the next buffer will be: an index (split), slot and wrap counter (packed). Undefined: at the start. */
  base: number | undefined;
  /** Addresses in the front-end's process. */
  user: { descriptor: bigint; driver: bigint; device: bigint } | undefined;
  kick = -1;
  call = -1;
  err = -1;
  /** Ends the watch of the kick descriptor. */
  unwatch: (() => void) | undefined;
  /** A kick descriptor, or word that none will come, has been received since the last stop. */
  started = false;
  /** SET_VRING_ENABLE; undefined as long as nobody said. */
  enabled: boolean | undefined;
  queue: DeviceQueue | undefined;
  /** Guest addresses of the queue that runs. */
  areas: Areas | undefined;

  constructor(readonly index: number) {}
}

/** What came of a queue while a connection lasted. */
export interface QueueReport {
  index: number;
  /** Buffers popped; one that was put back counts again. */
  popped: number;
  /** Buffers given back. */
  pushed: number;
  /** Buffers that the device still had when the queue went: their driver will not see them again. */
  lost: number;
  interruptsSent: number;
  interruptsSuppressed: number;
  bytesOut: number;
  bytesIn: number;
}
