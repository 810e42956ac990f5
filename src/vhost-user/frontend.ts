import { closeSync } from 'node:fs';
import { VringError } from '../errors.js';
import { Feature, type Features, featureMask, featureSet } from '../features.js';
import type { Host } from '../host.js';
import { createEventfd, drainEventfd, signalEventfd } from '../linux/eventfd.js';
import { type Mapping, mapFile, PAGE } from '../linux/mapping.js';
import { createMemfd } from '../linux/memfd.js';
import { type Watch, watchReadable } from '../linux/poller.js';
import { connectTo, receive, send } from '../linux/unix-socket.js';
import { Arena } from '../memory.js';
import { integer } from '../queue/check.js';
import type { DriverQueue } from '../queue/driver-queue.js';
import type { IndirectOptions } from '../queue/indirect.js';
import { areaLayout } from '../queue/queue.js';
import { writeRegion } from './memory-table.js';
import { encode, type Message, MessageReader, requestName } from './message.js';
import {
  bit,
  CONFIG_BYTES_MAX,
  CONFIG_HEADER_BYTES,
  F_PROTOCOL_FEATURES,
  FLAG_NEED_REPLY,
  ProtocolFeature,
  REGION_BYTES,
  Request,
} from './protocol.js';

export interface FrontendOptions {
  /** An engine with `shared: true` whose arena has room for `memory`. */
  engine: Host;
  /** Path of the unix socket that the back-end listens at. */
  socket: string;
  /** Bytes of memory to share with the device, for rings, tables and buffers. */
  memory: number;
  /** Bits to take if the device offers them; VERSION_1 is needed. */
  features: Features;
  /** The back-end has gone, or did something that makes no sense. Called once, not after `close`. */
  closed?: (report: FrontendReport) => void;
}

/** What came of a connection. */
export interface FrontendReport {
  /** Why it ended; undefined if the back-end closed it, or we did. */
  error: Error | undefined;
  /** For each queue that was left: the tokens of the buffers that the device still had. */
  queues: { index: number; tokens: number[] }[];
}

export interface FrontendQueueOptions {
  /** 0 … 255; what each is for is the device type's business. */
  index: number;
  /** Descriptors: 1 to 32768, a power of two in a split ring. */
  size: number;
  /** The device has used buffers, and the driver wanted to know. */
  interrupt?: () => void;
  /** Whether buffers of more than one segment go through a table, and bytes for these: 64 KiB if absent. */
  indirect?: { policy?: 'always' | 'never'; memory?: number };
}

interface FrontendQueue {
  index: number;
  queue: DriverQueue;
  kick: number;
  call: number;
  watch: Watch;
  blocks: number[];
}

const TABLE_BYTES = 65_536;
const REPLY_MS = 10_000;

const PROTOCOL_FEATURES =
  bit(ProtocolFeature.MQ) | bit(ProtocolFeature.REPLY_ACK) | bit(ProtocolFeature.CONFIG);

/** Requests that are always answered. */
const ANSWERED: ReadonlySet<Request> = new Set([
  Request.GET_FEATURES,
  Request.GET_PROTOCOL_FEATURES,
  Request.GET_QUEUE_NUM,
  Request.GET_VRING_BASE,
  Request.GET_CONFIG,
]);

/**
 * Front-end of the vhost-user protocol: drives a device that another process is, such as DPDK's net_vhost or
 * the storage daemon of QEMU. The device sees the memory that `alloc` hands out, under the addresses that it
 * has in the engine, and nothing else.
 */
export class Frontend {
  private readonly reader = new MessageReader(true);
  private readonly queues = new Map<number, FrontendQueue>();
  private readonly waiting: {
    request: Request;
    resolve: (m: Message) => void;
    reject: (e: unknown) => void;
  }[] = [];
  private readonly arena: Arena;
  private watch: Watch | undefined;
  private ended = false;
  private protocol = 0n;
  /** Queues start disabled, and protocol features are negotiated. */
  private hasProtocol = false;
  private negotiated: ReadonlySet<number> = new Set();

  private constructor(
    private readonly options: FrontendOptions,
    private readonly socket: number,
    private readonly mapping: Mapping,
    private readonly memfd: number,
  ) {
    this.arena = new Arena(mapping.address, mapping.length);
    this.watch = watchReadable(socket, () => this.read());
  }

  /**
   * Connects, negotiates and shares the memory.
   * @throws VringError EIO if nobody listens or the back-end fails; EINVAL, ENOMEM, ENOTSUP
   */
  static async connect(options: FrontendOptions): Promise<Frontend> {
    const { engine, socket: path } = options;
    const memory = integer(options.memory, 'memory', PAGE, 2 ** 32 - PAGE);
    const wanted = featureMask(options.features);
    if (!(engine.buffer instanceof SharedArrayBuffer))
      throw new VringError(
        'EINVAL',
        'other processes write to the memory at the same time: load the engine with shared: true',
      );
    const memfd = createMemfd('vring', memory);
    let mapping: Mapping | undefined;
    let socket: number | undefined;
    try {
      mapping = mapFile(engine, memfd, { length: memory });
      socket = connectTo(path);
      if (socket === undefined) throw new VringError('EIO', `nobody listens at ${path}: start the back-end`);
    } catch (error) {
      mapping?.release();
      closeSync(memfd);
      throw error;
    }
    const frontend = new Frontend(options, socket, mapping, memfd);
    try {
      await frontend.negotiate(wanted);
    } catch (error) {
      frontend.end(error, false);
      throw error;
    }
    return frontend;
  }

  /** What was negotiated. */
  get features(): ReadonlySet<number> {
    return this.negotiated;
  }

  /** Takes memory that the device can reach; not cleared. As `alloc` of the engine. @throws VringError EINVAL, ENOMEM */
  alloc(size: number, align = 16): number {
    return this.arena.alloc(size, align);
  }

  /** Gives back what `alloc` returned. @throws VringError EINVAL */
  free(address: number): void {
    this.arena.free(address);
  }

  /**
   * Reads the device's configuration space.
   * @throws VringError ENOTSUP if the back-end has none; EIO
   */
  async config(offset: number, size: number): Promise<Uint8Array> {
    integer(offset, 'offset', 0, CONFIG_BYTES_MAX);
    integer(size, 'size', 1, CONFIG_BYTES_MAX - offset);
    if (!this.has(ProtocolFeature.CONFIG))
      throw new VringError('ENOTSUP', 'the back-end has no configuration space to read');
    const payload = new DataView(new ArrayBuffer(CONFIG_HEADER_BYTES + size));
    payload.setUint32(0, offset, true);
    payload.setUint32(4, size, true);
    const reply = await this.call(Request.GET_CONFIG, payload);
    if (reply.byteLength !== CONFIG_HEADER_BYTES + size)
      throw new VringError('EIO', `the back-end gave no ${size} bytes of configuration at ${offset}`);
    return new Uint8Array(reply.buffer, CONFIG_HEADER_BYTES);
  }

  /**
   * Makes a queue and lets the device run it.
   * @throws VringError EINVAL, ENOMEM; EIO if the back-end refuses
   */
  async startQueue(options: FrontendQueueOptions): Promise<DriverQueue> {
    const { index, size, interrupt } = options;
    integer(index, 'index', 0, 255);
    if (this.queues.has(index)) throw new VringError('EINVAL', `queue ${index} runs: stop it first`);
    this.checkOpen();
    const started = this.makeQueue(options);
    this.queues.set(index, started);
    const { queue, kick, call } = started;
    started.watch = watchReadable(call, () => {
      drainEventfd(call);
      interrupt?.();
    });
    const { descriptor, driver, device } = queue.areas;
    const addresses = new DataView(new ArrayBuffer(40));
    addresses.setUint32(0, index, true);
    for (const [i, address] of [descriptor, device, driver].entries())
      addresses.setBigUint64(8 + i * 8, BigInt(address), true);
    await this.call(Request.SET_VRING_NUM, pair(index, size));
    // Packed: both positions are slot 0 with wrap counter 1.
    await this.call(Request.SET_VRING_BASE, pair(index, queue.ring === 'packed' ? 0x8000_8000 : 0));
    await this.call(Request.SET_VRING_ADDR, addresses);
    await this.call(Request.SET_VRING_CALL, u64(BigInt(index)), [call]);
    await this.call(Request.SET_VRING_KICK, u64(BigInt(index)), [kick]);
    if (this.hasProtocol) await this.call(Request.SET_VRING_ENABLE, pair(index, 1));
    return queue;
  }

  private makeQueue({ index, size, indirect = {} }: FrontendQueueOptions): FrontendQueue {
    const ring = this.negotiated.has(Feature.RING_PACKED) ? 'packed' : 'split';
    const blocks: number[] = [];
    const take = (bytes: number, align: number): number => {
      const block = this.arena.alloc(bytes, align);
      blocks.push(block);
      return block;
    };
    const events: number[] = [];
    try {
      const layout = areaLayout(ring, size);
      const areas = {
        descriptor: take(layout.descriptor.bytes, layout.descriptor.align),
        driver: take(layout.driver.bytes, layout.driver.align),
        device: take(layout.device.bytes, layout.device.align),
      };
      const { policy, memory = TABLE_BYTES } = indirect;
      const tables: IndirectOptions = { ...(policy && { policy }) };
      if (this.negotiated.has(Feature.INDIRECT_DESC) && policy !== 'never')
        tables.memory = { address: take(memory, 16), length: memory };
      events.push(createEventfd());
      events.push(createEventfd());
      const [kick, call] = events;
      const queue = this.options.engine.driverQueue({
        ring,
        size,
        features: this.negotiated,
        areas,
        indirect: tables,
        notify: () => signalEventfd(kick),
      });
      return { index, queue, kick, call, watch: { stop: () => {} }, blocks };
    } catch (error) {
      for (const fd of events) closeSync(fd);
      for (const block of blocks) this.arena.free(block);
      throw error;
    }
  }

  /**
   * Stops a queue: the device lets go of it, and it is released.
   * @returns the tokens of the buffers that the device had not given back
   * @throws VringError EINVAL; EIO if the back-end does not answer
   */
  async stopQueue(index: number): Promise<number[]> {
    const stopped = this.queues.get(index);
    if (stopped === undefined) throw new VringError('EINVAL', `queue ${index} does not run`);
    await this.call(Request.GET_VRING_BASE, pair(index, 0));
    this.queues.delete(index);
    return this.release(stopped);
  }

  private release({ queue, watch, kick, call, blocks }: FrontendQueue): number[] {
    watch.stop();
    closeSync(kick);
    closeSync(call);
    // Not `reset`, which clears the ring: the device may still look at it.
    const tokens: number[] = [];
    for (let token = queue.detachUnused(); token !== undefined; token = queue.detachUnused())
      tokens.push(token);
    queue.release();
    for (const block of blocks) this.arena.free(block);
    return tokens;
  }

  /**
   * Ends the connection and gives the memory back. The device may write to it until it has noticed, but to
   * nothing else.
   */
  close(): FrontendReport {
    return this.end(undefined, false);
  }

  private has(feature: ProtocolFeature): boolean {
    return (this.protocol & bit(feature)) !== 0n;
  }

  private async negotiate(wanted: bigint): Promise<void> {
    const offered = (await this.call(Request.GET_FEATURES)).getBigUint64(0, true);
    this.hasProtocol = (offered & bit(F_PROTOCOL_FEATURES)) !== 0n;
    if (this.hasProtocol) {
      const protocol = (await this.call(Request.GET_PROTOCOL_FEATURES)).getBigUint64(0, true);
      const taken = protocol & PROTOCOL_FEATURES;
      await this.call(Request.SET_PROTOCOL_FEATURES, u64(taken));
      this.protocol = taken;
    }
    await this.call(Request.SET_OWNER);
    const taken = offered & wanted & ~bit(F_PROTOCOL_FEATURES);
    if (!(taken & bit(Feature.VERSION_1)))
      throw new VringError(
        'EINVAL',
        `VERSION_1 (32) is needed: the device offers 0x${offered.toString(16)}, features has 0x${wanted.toString(16)}`,
      );
    this.negotiated = featureSet(taken);
    await this.call(Request.SET_FEATURES, u64(taken | (offered & bit(F_PROTOCOL_FEATURES))));
    const table = new DataView(new ArrayBuffer(8 + REGION_BYTES));
    table.setUint32(0, 1, true);
    // One address for each byte, whoever speaks of it.
    const at = BigInt(this.mapping.address);
    writeRegion(table, 8, { guest: at, size: BigInt(this.mapping.length), user: at, offset: 0n });
    await this.call(Request.SET_MEM_TABLE, table, [this.memfd]);
  }

  private checkOpen(): void {
    if (this.ended) throw new VringError('EIO', 'the connection to the back-end has ended: connect again');
  }

  /** Sends a request and waits for its answer, if it has one. */
  private async call(
    request: Request,
    payload: DataView<ArrayBuffer> = new DataView(new ArrayBuffer(0)),
    fds: number[] = [],
  ): Promise<DataView> {
    this.checkOpen();
    const answered = ANSWERED.has(request);
    const acknowledged = !answered && this.has(ProtocolFeature.REPLY_ACK);
    const bytes = encode(request, acknowledged ? FLAG_NEED_REPLY : 0, new Uint8Array(payload.buffer));
    send(this.socket, bytes, fds);
    if (!answered && !acknowledged) return payload;
    const message = await new Promise<Message>((resolve, reject) => {
      const timer = setTimeout(
        () => this.end(new VringError('EIO', `the back-end does not answer ${requestName(request)}`), true),
        REPLY_MS,
      );
      const settle = <T>(act: (value: T) => void) => {
        return (value: T): void => {
          clearTimeout(timer);
          act(value);
        };
      };
      this.waiting.push({ request, resolve: settle(resolve), reject: settle(reject) });
    });
    const reply = message.payload;
    if (request !== Request.GET_CONFIG && reply.byteLength !== 8)
      throw new VringError('EPROTO', `the reply to ${requestName(request)} has ${reply.byteLength} bytes`);
    if (acknowledged && reply.getBigUint64(0, true) !== 0n)
      throw new VringError('EIO', `the back-end refuses ${requestName(request)}`);
    return reply;
  }

  private read(): void {
    try {
      const chunk = receive(this.socket, this.reader.wanted);
      if (chunk === undefined) return;
      // Nothing that is asked for here is answered with descriptors.
      for (const fd of chunk.fds) closeSync(fd);
      if (chunk.bytes.length === 0) {
        this.end(undefined, true);
        return;
      }
      const message = this.reader.feed(chunk.bytes, []);
      if (message === undefined) return;
      const next = this.waiting.shift();
      if (next === undefined || next.request !== message.request) {
        if (next !== undefined) this.waiting.unshift(next);
        throw new VringError('EPROTO', `a reply to ${requestName(message.request)}, which was not asked for`);
      }
      next.resolve(message);
    } catch (error) {
      this.end(error, true);
    }
  }

  private end(error: unknown, tell: boolean): FrontendReport {
    if (this.ended) return { error: undefined, queues: [] };
    this.ended = true;
    this.watch?.stop();
    closeSync(this.socket);
    const reason = error ?? new VringError('EIO', 'the connection to the back-end has ended');
    for (const { reject } of this.waiting.splice(0)) reject(reason);
    const queues = [...this.queues.values()].map((one) => ({ index: one.index, tokens: this.release(one) }));
    this.queues.clear();
    this.mapping.release();
    closeSync(this.memfd);
    const report = {
      error: error === undefined || error instanceof Error ? error : new Error(String(error)),
      queues,
    };
    if (tell) this.options.closed?.(report);
    return report;
  }
}

function pair(a: number, b: number): DataView<ArrayBuffer> {
  const view = new DataView(new ArrayBuffer(8));
  view.setUint32(0, a, true);
  view.setUint32(4, b, true);
  return view;
}

function u64(value: bigint): DataView<ArrayBuffer> {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, value, true);
  return view;
}
