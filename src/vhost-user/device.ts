import type { Features } from '../features.js';
import type { Host } from '../host.js';
import type { DeviceQueue } from '../queue/device-queue.js';

/** A queue that runs. */
export interface RunningQueue {
  /** 0 … `queues` - 1. */
  index: number;
  queue: DeviceQueue;
  /** What the driver negotiated, bits of the device type among them. */
  features: ReadonlySet<number>;
  /** The engine whose memory the queue's pieces lie in. Other processes write to it all the time. */
  engine: Host;
}

/**
 * A virtio device, as the back-end runs it. Used-buffer notifications are the back-end's: `push`,
 * `pushBurst` and `flush` send them where the driver wants them.
 *
 * A device that throws, as queues do for what a driver does wrong, loses its driver: the connection is closed
 * and the next one served.
 */
export interface Device {
  /**
   * Feature bits to offer. VERSION_1, RING_PACKED, INDIRECT_DESC, EVENT_IDX and IN_ORDER may be among them:
   * the queues see to those.
   */
  readonly features: Features;
  /** Most queues that a driver can have: 1 … 256. */
  readonly queues: number;
  /** The configuration space, at most 256 bytes; read each time the driver asks. */
  readonly config?: Uint8Array;
  /** The driver writes to the configuration space; the range has been checked. Without it nobody may. */
  writeConfig?(offset: number, bytes: Uint8Array): void;
  /**
   * Whether one used entry may stand for several elements of a queue in in-order use; yes, if absent. See
   * `DeviceQueueOptions`.
   */
  batches?(index: number): boolean;
  /** A queue runs from now on. Called again, with another queue object, after the driver moved its memory. */
  startQueue(running: RunningQueue): void;
  /**
   * The queue is about to go. Give back (`push`) or put back (`rewind`) whatever was popped: when this is
   * done, the queue is released and its memory may vanish.
   */
  stopQueue(index: number): void | Promise<void>;
  /**
   * Does what there is to do, at most some ten microseconds' worth.
   * @returns whether anything was done: it is then called again at once
   */
  service(): boolean;
  /**
   * Nothing is to do: ask for a notification (`enableNotifications`) on each queue from which something may
   * come.
   * @returns false if something is there already; notifications may stay enabled then
   */
  arm(): boolean;
}
