import {
  type Burst,
  type Completions,
  type DeviceQueue,
  type DriverQueue,
  Feature,
  type Host,
  loadEngine,
  type RingFormat,
} from '../../index.js';
import type { Frames } from './frames.js';
import { LoopbackDevice } from './loopback-device.js';
import { HEADER_BYTES, writeTransmitHeader } from './net-header.js';
import { ReceivePool } from './receive-pool.js';
import { splitPacket } from './split.js';

/** What a replay is about, whatever the ring. */
export interface Load {
  size: number;
  burst: number;
  segments: number;
  eventIdx: boolean;
  indirect: boolean;
}

export interface ReplayOptions extends Load {
  ring: RingFormat;
}

/** What one run came to. */
export interface Run {
  /** Nanoseconds in which the clock ran. */
  ns: number;
  packets: number;
  /** Buffers that came back with a wrong byte, length or token. */
  mismatches: number;
  notifications: Notifications;
}

export interface Notifications {
  kicksSent: number;
  kicksSuppressed: number;
  interruptsSent: number;
  interruptsSuppressed: number;
}

/** Receive buffers between two checks, so that stopping the clock costs nothing per packet. */
const CHECK_EVERY = 1024;
const EXTRA_BYTES_MAX = 256 << 20;
const TABLE_DESCRIPTORS_MIN = 16;
const DESCRIPTOR_BYTES = 16;

/**
 * A net driver that transmits the frames of a capture and gets them back from a loopback device, over a
 * transmit and a receive queue.
 *
 * Driver and device take turns in one thread, each only when the other one called it: a notification that
 * is missing stalls the replay and is reported. The clock runs for all that the two do for a packet:
 * writing and reading records, queue operations, callbacks, the copy. It is stopped for what a real driver
 * would not do: comparing buffers with the capture.
 */
export class Replay {
  private readonly transmit: DriverQueue;
  private readonly receive: DriverQueue;
  private readonly devices: DeviceQueue[];
  private readonly device: LoopbackDevice;
  private readonly pool: ReceivePool;
  private readonly sending: Burst;
  private readonly posting: Burst;
  private readonly completions: Completions;
  private readonly memory: Buffer;
  private readonly expected: Buffer;
  /** Address of the first segment of each packet; the segments of packet i start at firstSegment[i]. */
  private readonly addresses: Uint32Array;
  private readonly lengths: Uint32Array;
  private readonly firstSegment: Uint32Array;
  private readonly store: number;
  /** Receive buffers to keep with the device. */
  private readonly depth: number;
  private posted = 0;

  /** Who was called and did not run yet. */
  private deviceCalled = false;
  private transmitCalled = false;
  private receiveCalled = false;

  /** Packets of this run: in all, put into the burst, completed by the transmit queue, received. */
  private total = 0;
  private filled = 0;
  private completed = 0;
  private received = 0;
  private mismatches = 0;
  private started = 0;
  private elapsed = 0;

  static async create(
    name: 'wasm' | 'typescript',
    frames: Frames,
    options: ReplayOptions,
    Device: typeof LoopbackDevice = LoopbackDevice,
  ): Promise<Replay> {
    const engine = await loadEngine({ engine: name, size: memoryBytes(frames, options) });
    return new Replay(engine, frames, options, Device);
  }

  private constructor(
    engine: Host,
    private readonly frames: Frames,
    private readonly options: ReplayOptions,
    Device: typeof LoopbackDevice,
  ) {
    const { ring: format, size, burst, segments, eventIdx, indirect } = options;
    const features = [
      Feature.VERSION_1,
      ...(format === 'packed' ? [Feature.RING_PACKED] : []),
      ...(eventIdx ? [Feature.EVENT_IDX] : []),
      ...(indirect ? [Feature.INDIRECT_DESC] : []),
    ];
    const queue = { ring: format, size, features };
    const tables = { indirect: { memory: tableBytes(options) } };
    this.transmit = engine.driverQueue({
      ...queue,
      ...tables,
      notify: () => {
        this.deviceCalled = true;
      },
    });
    this.receive = engine.driverQueue({ ...queue, ...tables });
    const transmit = engine.deviceQueue({
      ...queue,
      areas: this.transmit.areas,
      interrupt: () => {
        this.transmitCalled = true;
      },
    });
    const receive = engine.deviceQueue({
      ...queue,
      areas: this.receive.areas,
      interrupt: () => {
        this.receiveCalled = true;
      },
    });
    this.devices = [transmit, receive];
    this.device = new Device(engine, transmit, receive, burst, segments);
    this.sending = this.transmit.createBurst(burst, burst * segments);
    this.posting = this.receive.createBurst(burst, burst * segments);
    this.completions = this.transmit.createCompletions(burst);
    this.depth = depth(options);
    this.pool = new ReceivePool(engine, frames, poolBuffers(frames, options), segments);

    this.store = engine.alloc(Math.max(frames.bytes.byteLength, 1), 64);
    this.memory = Buffer.from(engine.buffer as ArrayBuffer, this.store, frames.bytes.byteLength);
    this.expected = Buffer.from(frames.bytes as unknown as ArrayBuffer);
    this.expected.copy(this.memory);
    const addresses: number[] = [];
    const lengths: number[] = [];
    this.firstSegment = new Uint32Array(frames.offsets.length + 1);
    frames.offsets.forEach((offset, i) => {
      writeTransmitHeader(this.memory, offset);
      let at = this.store + offset;
      for (const length of splitPacket(frames.lengths[i], segments)) {
        addresses.push(at);
        lengths.push(length);
        at += length;
      }
      this.firstSegment[i + 1] = addresses.length;
    });
    this.addresses = Uint32Array.from(addresses);
    this.lengths = Uint32Array.from(lengths);
    this.post();
  }

  /** Replays all packets so many times. @throws Error if a notification or packet was lost */
  run(passes: number): Run {
    const before = this.notifications();
    const packets = this.frames.offsets.length;
    this.total = packets * passes;
    this.filled = this.completed = this.received = this.mismatches = 0;
    this.elapsed = 0;
    this.startClock();
    this.send();
    for (;;) {
      if (this.deviceCalled) {
        this.deviceCalled = false;
        this.device.run();
      } else if (this.receiveCalled) {
        this.receiveCalled = false;
        this.serveReceive();
      } else if (this.transmitCalled) {
        this.transmitCalled = false;
        this.serveTransmit();
      } else break;
    }
    this.stopClock();
    this.mismatches += this.pool.check() + this.checkSent();
    if (this.completed !== this.total || this.received !== this.total)
      throw new Error(
        `the replay stalled: of ${this.total} packets ${this.completed} were completed and ` +
          `${this.received} received, then neither side was notified`,
      );
    const after = this.notifications();
    return {
      ns: this.elapsed * 1e6,
      packets: this.total,
      mismatches: this.mismatches,
      notifications: {
        kicksSent: after.kicksSent - before.kicksSent,
        kicksSuppressed: after.kicksSuppressed - before.kicksSuppressed,
        interruptsSent: after.interruptsSent - before.interruptsSent,
        interruptsSuppressed: after.interruptsSuppressed - before.interruptsSuppressed,
      },
    };
  }

  private startClock(): void {
    this.started = performance.now();
  }

  private stopClock(): void {
    this.elapsed += performance.now() - this.started;
  }

  /** Transmits until the queue is full, the receive queue could not take more, or all is sent. */
  private send(): void {
    const { transmit, sending } = this;
    while (sending.pending > 0 || this.fill()) {
      if (transmit.addBurst(sending) > 0) transmit.kick();
      if (sending.pending > 0) return; // full: goes on when something was completed
    }
  }

  /** @returns whether there was something to send */
  private fill(): boolean {
    const { sending, addresses, lengths, firstSegment } = this;
    const packets = this.frames.offsets.length;
    const room = this.posted - (this.filled - this.received);
    const n = Math.min(this.options.burst, room, this.total - this.filled);
    let packet = this.filled % packets;
    for (let i = 0; i < n; i++) {
      for (let s = firstSegment[packet]; s < firstSegment[packet + 1]; s++)
        sending.out(addresses[s], lengths[s]);
      sending.end(packet);
      if (++packet === packets) packet = 0;
    }
    this.filled += n;
    return n > 0;
  }

  /** Puts receive buffers into the queue until it is full. */
  private post(): void {
    const { receive, posting, pool } = this;
    while (posting.pending > 0 || this.posted < this.depth) {
      if (posting.pending === 0) {
        if (pool.available === 0) this.check();
        const n = Math.min(this.options.burst, this.depth - this.posted, pool.available);
        for (let i = 0; i < n; i++) pool.post(posting);
      }
      const added = receive.addBurst(posting);
      this.posted += added;
      if (added > 0) receive.kick();
      if (posting.pending > 0) return;
    }
  }

  private check(): void {
    this.stopClock();
    this.mismatches += this.pool.check();
    this.startClock();
  }

  private serveReceive(): void {
    const { receive, completions, pool } = this;
    const packets = this.frames.offsets.length;
    receive.disableCallbacks();
    do {
      for (let n = receive.getBurst(completions); n > 0; n = receive.getBurst(completions)) {
        let packet = this.received % packets;
        for (let i = 0; i < n; i++) {
          pool.take(completions.token(i), packet, completions.length(i));
          if (++packet === packets) packet = 0;
        }
        this.received += n;
        this.posted -= n;
      }
      this.post();
    } while (!receive.enableCallbacks());
    this.send();
  }

  private serveTransmit(): void {
    const { transmit, completions } = this;
    const packets = this.frames.offsets.length;
    transmit.disableCallbacks();
    do {
      for (let n = transmit.getBurst(completions); n > 0; n = transmit.getBurst(completions)) {
        let packet = this.completed % packets;
        for (let i = 0; i < n; i++) {
          // The device completes in order, and writes nothing.
          if (completions.token(i) !== packet || completions.length(i) !== 0) this.mismatches++;
          if (++packet === packets) packet = 0;
        }
        this.completed += n;
      }
    } while (!transmit.enableCallbacks());
    this.send();
  }

  /** Compares what was transmitted with the capture: a device must not have written to it. */
  private checkSent(): number {
    const { memory, expected, frames } = this;
    const header = Buffer.alloc(HEADER_BYTES);
    let wrong = 0;
    frames.offsets.forEach((offset, i) => {
      const start = offset + HEADER_BYTES;
      const end = offset + frames.lengths[i];
      if (
        memory.compare(header, 0, HEADER_BYTES, offset, start) !== 0 ||
        memory.compare(expected, start, end, start, end) !== 0
      )
        wrong++;
    });
    return wrong;
  }

  private notifications(): Notifications {
    const drivers = [this.transmit, this.receive].map((queue) => queue.stats());
    const devices = this.devices.map((queue) => queue.stats());
    return {
      kicksSent: drivers[0].kicksSent + drivers[1].kicksSent,
      kicksSuppressed: drivers[0].kicksSuppressed + drivers[1].kicksSuppressed,
      interruptsSent: devices[0].interruptsSent + devices[1].interruptsSent,
      interruptsSuppressed: devices[0].interruptsSuppressed + devices[1].interruptsSuppressed,
    };
  }
}

/** Buffers that a queue holds. */
export const depth = ({ size, segments, indirect }: Load): number =>
  indirect ? size : Math.floor(size / segments);

function poolBuffers(frames: Frames, options: Load): number {
  const posted = depth(options);
  const extra = Math.floor(EXTRA_BYTES_MAX / ReceivePool.bytes(frames.longest, 1, options.segments));
  return posted + Math.max(options.burst, Math.min(Math.max(posted, CHECK_EVERY), extra));
}

/** Twice the descriptors of a buffer, so that no table is missing for want of a fitting piece. */
const tableBytes = ({ size, segments, indirect }: Load): number =>
  indirect && segments > 1 ? size * DESCRIPTOR_BYTES * Math.max(TABLE_DESCRIPTORS_MIN, segments * 2) : 0;

/** Memory that a replay takes: packets, receive buffers, and what the queues need at most. */
export function memoryBytes(frames: Frames, options: Load): number {
  const queues = 2 * (options.size * 512 + tableBytes(options));
  const records = 4 * options.burst * (options.segments + 2) * 16;
  const pool = ReceivePool.bytes(frames.longest, poolBuffers(frames, options), options.segments);
  return frames.bytes.byteLength + pool + queues + records + (1 << 20);
}
