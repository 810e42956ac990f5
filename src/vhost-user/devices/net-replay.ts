import { VringError } from '../../errors.js';
import type { Device, RunningQueue } from '../device.js';
import { netBatches, netConfig, netFeatures } from './net.js';
import { BURST, type End, makeEnd, most, place, putBack, WAIT } from './net-end.js';

const RECEIVE = 0;

export interface NetReplayCounts {
  /** Frames that went to the driver. */
  frames: number;
  bytes: number;
  /** Frames longer than what the driver's buffers can hold. */
  dropped: number;
  /** Frames that the driver sent; nobody looks at them. */
  received: number;
}

/** A network device that sends given frames to the driver, as fast as it takes them. */
export class NetReplay implements Device {
  readonly features = netFeatures(1);
  readonly queues = 2;
  readonly config = netConfig(1);
  readonly batches = netBatches;
  readonly counts: NetReplayCounts = { frames: 0, bytes: 0, dropped: 0, received: 0 };
  private receive: End | undefined;
  private transmit: End | undefined;
  private next = 0;
  private large = false;

  /**
   * @param frames without header, none of them empty
   * @param rounds how often all of them are sent
   */
  constructor(
    private readonly frames: readonly Uint8Array[],
    private rounds = 1,
  ) {
    if (frames.length === 0 || frames.some(({ length }) => length === 0))
      throw new VringError('EINVAL', 'there must be frames, and each must have bytes');
  }

  /** Everything has been sent. */
  get done(): boolean {
    return this.rounds <= 0;
  }

  startQueue(running: RunningQueue): void {
    const end = makeEnd(running);
    if (running.index === RECEIVE) this.receive = end;
    else this.transmit = end;
  }

  stopQueue(index: number): void {
    const which = index === RECEIVE ? 'receive' : 'transmit';
    this[which]?.elements.free();
    this[which] = undefined;
  }

  service(): boolean {
    const sent = this.send();
    return this.take() || sent;
  }

  arm(): boolean {
    const { receive, transmit } = this;
    const wanted = [transmit, ...(this.done ? [] : [receive])];
    // Each is asked, whatever the others say.
    return wanted.map((end) => end?.queue.enableNotifications() ?? true).every((idle) => idle);
  }

  /** One burst to the driver. */
  private send(): boolean {
    const { receive, frames } = this;
    if (receive === undefined || this.done) return false;
    const { queue, elements } = receive;
    const wanted = this.large ? most(receive) : Math.min(most(receive), BURST >> 1);
    const room = queue.popBurst(elements, wanted);
    let used = 0;
    while (used < room && !this.done) {
      const frame = frames[this.next];
      let at = 0;
      const took = place(receive, used, room - used, frame.length, (into, share) => {
        into.write(receive.copier.u8, frame.subarray(at, at + share));
        at += share;
      });
      if (took === WAIT) break;
      if (took === 0) this.counts.dropped++;
      else {
        this.counts.frames++;
        this.counts.bytes += frame.length;
      }
      used += took;
      this.next++;
      if (this.next === frames.length) {
        this.next = 0;
        this.rounds--;
      }
    }
    this.large = used === 0 && room === wanted && room > 0 && wanted < most(receive);
    if (used < room) putBack(queue, room - used);
    if (used > 0) queue.pushBurst(elements, used);
    return used > 0 || this.large;
  }

  /** One burst from the driver. */
  private take(): boolean {
    const { transmit } = this;
    if (transmit === undefined) return false;
    const got = transmit.queue.popBurst(transmit.elements);
    if (got === 0) return false;
    this.counts.received += got;
    transmit.queue.pushBurst(transmit.elements, got);
    return true;
  }
}
