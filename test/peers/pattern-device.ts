import { NetFeature } from '../../src/device-types.js';
import type { DeviceQueue } from '../../src/queue/device-queue.js';
import type { Device, RunningQueue } from '../../src/vhost-user/device.js';
import { NET_HEADER, netBatches, netConfig, netFeatures } from '../../src/vhost-user/devices/net.js';
import { checkFrame, writeFrame } from './frames.js';

/** Frames under way: testpmd drops those for which its queue of 256 descriptors, 3 for a frame, has no room. */
const WINDOW = 64;

/** A network device that sends numbered frames and wants each of them back, in order. */
export class PatternDevice implements Device {
  readonly features = netFeatures(1);
  readonly queues = 2;
  readonly config = netConfig(1);
  readonly batches = netBatches;
  readonly queuesOf: (DeviceQueue | undefined)[] = [];
  negotiated: ReadonlySet<number> = new Set();
  sent = 0;
  returned = 0;
  /** Receive buffers that the driver gave for them. */
  buffers = 0;
  private u8: Uint8Array = new Uint8Array(0);
  private readonly scratch: Uint8Array;
  private done: (() => void) | undefined;

  /** @param count frames to send; `max` bytes of the longest */
  constructor(
    private readonly count: number,
    private readonly max: number,
  ) {
    this.scratch = new Uint8Array(NET_HEADER + max + 16);
  }

  /** Resolves when all of them have come back. */
  finished(): Promise<void> {
    return new Promise((resolve) => {
      this.done = resolve;
    });
  }

  startQueue({ index, queue, features, engine }: RunningQueue): void {
    this.u8 = new Uint8Array(engine.buffer);
    this.negotiated = features;
    this.queuesOf[index] = queue;
    // Frames that were under way to a driver that has gone are sent again to the next one.
    this.sent = this.returned;
  }

  stopQueue(index: number): void {
    this.queuesOf[index] = undefined;
  }

  service(): boolean {
    const [receive, transmit] = this.queuesOf;
    if (receive === undefined || transmit === undefined) return false;
    let busy = false;
    for (let i = 0; i < 64; i++) {
      if (this.sent < this.count && this.sent - this.returned < WINDOW && this.send(receive)) busy = true;
      if (this.take(transmit)) busy = true;
    }
    return busy;
  }

  arm(): boolean {
    const [receive, transmit] = this.queuesOf;
    if (receive === undefined || transmit === undefined) return true;
    const more = this.sent < this.count && this.sent - this.returned < WINDOW;
    return transmit.enableNotifications() && !(more && !receive.enableNotifications());
  }

  private send(queue: DeviceQueue): boolean {
    const { scratch, u8 } = this;
    const mergeable = this.negotiated.has(NetFeature.MRG_RXBUF);
    const length = NET_HEADER + writeFrame(scratch, NET_HEADER, this.sent, this.max);
    const elements = [];
    let room = 0;
    while (room < length && (mergeable || elements.length === 0)) {
      const element = queue.pop();
      if (element === undefined) break;
      elements.push(element);
      for (const piece of element.in) room += piece.length;
    }
    if (room < length) {
      if (elements.length > 0) queue.rewind(elements.length);
      return false;
    }
    scratch.fill(0, 0, NET_HEADER);
    scratch[10] = elements.length;
    let at = 0;
    elements.forEach((element, i) => {
      const start = at;
      for (const piece of element.in) {
        const run = Math.min(piece.length, length - at);
        u8.set(scratch.subarray(at, at + run), piece.address);
        at += run;
      }
      queue.fill(element, at - start, i);
    });
    queue.flush(elements.length);
    this.buffers += elements.length;
    this.sent++;
    return true;
  }

  private take(queue: DeviceQueue): boolean {
    const element = queue.pop();
    if (element === undefined) return false;
    const parts = element.out.map(({ address, length }) => this.u8.subarray(address, address + length));
    const frame = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
      frame.set(part, at);
      at += part.length;
    }
    queue.push(element, 0);
    checkFrame(frame.subarray(NET_HEADER), this.returned, this.max);
    this.returned++;
    if (this.returned === this.count) this.done?.();
    return true;
  }
}
