import type { Device, RunningQueue } from '../device.js';
import { readable } from './copy.js';
import { NET_HEADER, netConfig, netFeatures } from './net.js';
import { type End, makeEnd, most, place, putBack, WAIT } from './net-end.js';

const RECEIVE = 0;

/** Receive and transmit queue that belong together; `receive` is what the driver receives from. */
interface Pair {
  receive: End | undefined;
  transmit: End | undefined;
  /** A frame waits for receive buffers. */
  waiting: boolean;
  /** The next frame takes more receive buffers than one. */
  large: boolean;
}

export interface NetEchoCounts {
  /** Frames that went back to the driver. */
  frames: number;
  bytes: number;
  /** Frames without a byte behind the header, or longer than what the driver's buffers can hold. */
  dropped: number;
}

/**
 * A network device that sends every frame back to where it came from: from the transmit queue's buffers right
 * into the receive queue's. Frames wait for receive buffers.
 */
export class NetEcho implements Device {
  readonly features: number[];
  readonly queues: number;
  readonly config: Uint8Array;
  readonly counts: NetEchoCounts = { frames: 0, bytes: 0, dropped: 0 };
  private readonly pairs: Pair[];
  private armed = false;

  /** @param pairs queue pairs, 1 … 128 */
  constructor(pairs = 1) {
    this.features = netFeatures(pairs);
    this.queues = pairs * 2;
    this.config = netConfig(pairs);
    this.pairs = Array.from({ length: pairs }, () => ({
      receive: undefined,
      transmit: undefined,
      waiting: false,
      large: false,
    }));
  }

  startQueue(running: RunningQueue): void {
    const { index, queue } = running;
    const end = makeEnd(running);
    queue.disableNotifications();
    const pair = this.pairs[index >> 1];
    if ((index & 1) === RECEIVE) pair.receive = end;
    else pair.transmit = end;
  }

  stopQueue(index: number): void {
    const pair = this.pairs[index >> 1];
    const which = (index & 1) === RECEIVE ? 'receive' : 'transmit';
    pair[which]?.elements.free();
    pair[which] = undefined;
    pair.waiting = false;
    pair.large = false;
  }

  service(): boolean {
    if (this.armed) this.disarm();
    let busy = false;
    for (const pair of this.pairs) if (this.echo(pair)) busy = true;
    return busy;
  }

  arm(): boolean {
    this.armed = true;
    let idle = true;
    for (const { receive, transmit, waiting } of this.pairs) {
      if (receive === undefined || transmit === undefined) continue;
      if (!(waiting ? receive : transmit).queue.enableNotifications()) idle = false;
    }
    return idle;
  }

  private disarm(): void {
    this.armed = false;
    for (const { receive, transmit } of this.pairs) {
      receive?.queue.disableNotifications();
      transmit?.queue.disableNotifications();
    }
  }

  /** One burst. @returns whether there may be more to do at once */
  private echo(pair: Pair): boolean {
    const { receive, transmit } = pair;
    if (receive === undefined || transmit === undefined) return false;
    const sent = transmit.queue.popBurst(transmit.elements);
    pair.waiting = false;
    if (sent === 0) return false;
    // A frame takes one buffer, unless experience says otherwise.
    const wanted = pair.large ? most(receive) : sent;
    const room = receive.queue.popBurst(receive.elements, wanted);
    let frames = 0;
    let used = 0;
    for (; frames < sent; frames++) {
      const took = this.move(transmit, frames, receive, used, room - used);
      if (took === WAIT) break;
      if (took > 0) this.counts.frames++;
      else this.counts.dropped++;
      used += took;
    }
    // What was not used goes back to where it was.
    if (used < room) putBack(receive.queue, room - used);
    if (frames < sent) {
      putBack(transmit.queue, sent - frames);
      pair.waiting = room < wanted;
    }
    pair.large = frames < sent && room === wanted;
    if (used > 0) receive.queue.pushBurst(receive.elements, used);
    if (frames > 0) transmit.queue.pushBurst(transmit.elements, frames);
    return frames > 0 || pair.large;
  }

  /**
   * Moves frame `i` into receive buffers from `first` on.
   * @returns how many buffers it took; 0 if it was dropped; WAIT if `room` buffers are not enough
   */
  private move(from: End, i: number, to: End, first: number, room: number): number {
    const source = from.elements;
    const target = to.elements;
    const pieces = source.outCount(i);
    const start = source.first(i);
    if (pieces === 1 && room > 0) {
      // By far the most frequent case: one piece here, and room for it in the first piece there.
      const length = source.length(start);
      const into = target.first(first) + target.outCount(first);
      if (length > NET_HEADER && target.inCount(first) > 0 && target.length(into) - to.spare >= length) {
        const address = target.address(into);
        to.copier.netHeader(address, 1);
        to.copier.copy(address + NET_HEADER, source.address(start) + NET_HEADER, length - NET_HEADER);
        target.setWritten(first, length);
        this.counts.bytes += length - NET_HEADER;
        return 1;
      }
    }
    const cursor = readable(source, i);
    const bytes = cursor.left - NET_HEADER;
    if (bytes <= 0) return 0;
    cursor.skip(NET_HEADER);
    const took = place(to, first, room, bytes, (into, share) => into.copy(to.copier, cursor, share));
    if (took > 0) this.counts.bytes += bytes;
    return took;
  }
}
