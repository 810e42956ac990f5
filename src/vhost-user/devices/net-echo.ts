import { NetFeature } from '../../device-types.js';
import { Feature } from '../../features.js';
import type { DeviceQueue } from '../../queue/device-queue.js';
import type { Elements } from '../../queue/elements.js';
import type { Device, RunningQueue } from '../device.js';
import { Copier, type PieceCursor, readable, writable } from './copy.js';
import { NET_HEADER, netConfig, netFeatures, netHeader } from './net.js';

const BURST = 64;
const RECEIVE = 0;
/** A frame does not fit the receive buffers that there are. */
const WAIT = -1;

interface End {
  queue: DeviceQueue;
  elements: Elements;
  mergeable: boolean;
  /**
   * Bytes at the end of a merged buffer that stay unused. In in-order use a buffer that is filled to the last
   * byte needs no used entry of its own (2.7.9, 2.8.9), but some drivers (DPDK's) look for it.
   */
  spare: number;
  copier: Copier;
}

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

  startQueue({ index, queue, features, engine }: RunningQueue): void {
    const end = {
      queue,
      elements: queue.createElements(BURST),
      mergeable: features.has(NetFeature.MRG_RXBUF),
      spare: features.has(NetFeature.MRG_RXBUF) && features.has(Feature.IN_ORDER) ? 1 : 0,
      copier: new Copier(engine.buffer),
    };
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
    return this.scatter(from, i, to, first, room);
  }

  /** As `move`, for any number of pieces and buffers. */
  private scatter(from: End, i: number, to: End, first: number, room: number): number {
    const source = readable(from.elements, i);
    const length = source.left - NET_HEADER;
    if (length <= 0) return 0;
    // How many buffers: known before a byte is written.
    const limit = to.mergeable ? room : Math.min(room, 1);
    const targets: PieceCursor[] = [];
    let bytes = 0;
    while (targets.length < limit && bytes < NET_HEADER + length) {
      const target = writable(to.elements, first + targets.length);
      targets.push(target);
      bytes += Math.max(0, target.left - to.spare);
    }
    if (bytes < NET_HEADER + length) {
      // More may come, unless all that can be had at a time was not enough.
      const all = to.mergeable ? first === 0 && room === most(to) : room > 0;
      return all ? 0 : WAIT;
    }
    if (targets[0].left - to.spare < NET_HEADER) return 0;
    source.skip(NET_HEADER);
    targets[0].write(to.copier.u8, netHeader(new Uint8Array(NET_HEADER), targets.length));
    let rest = length;
    targets.forEach((target, k) => {
      const share = Math.min(rest, Math.max(0, target.left - to.spare));
      target.copy(to.copier, source, share);
      rest -= share;
      to.elements.setWritten(first + k, share + (k === 0 ? NET_HEADER : 0));
    });
    this.counts.bytes += length;
    return targets.length;
  }
}

/** Most buffers that can be popped at a time. */
const most = ({ queue }: End): number => Math.min(BURST, queue.size);

function putBack(queue: DeviceQueue, n: number): void {
  if (!queue.rewind(n)) throw new Error(`invariant: the last ${n} elements popped are in flight`);
}
