import { show, VringError } from '../errors.js';
import { Feature, featureMask, featureSet } from '../features.js';
import type { Host } from '../host.js';
import type { DeviceQueue } from '../queue/device-queue.js';
import { checkSize } from '../queue/queue.js';
import type { Device } from './device.js';
import { type MapFile, MemoryTable, readRegion, readRegions } from './memory-table.js';
import { encode, type Message, requestName } from './message.js';
import {
  bit,
  CONFIG_BYTES_MAX,
  CONFIG_HEADER_BYTES,
  F_PROTOCOL_FEATURES,
  FLAG_NEED_REPLY,
  FLAG_REPLY,
  MEMORY_SLOTS,
  NO_DESCRIPTOR,
  ProtocolFeature,
  REGION_BYTES,
  Request,
  TABLE_REGIONS_MAX,
} from './protocol.js';
import { type QueueReport, Vring } from './vring.js';

/** What a session needs from the system. */
export interface SessionSystem {
  map: MapFile;
  close(fd: number): void;
  /** @throws VringError if it is no event descriptor */
  adoptEvent(fd: number): void;
  signal(fd: number): void;
  drain(fd: number): void;
  watch(fd: number, ready: () => void): { stop(): void };
}

/** What a session needs from whoever holds the connection. */
export interface SessionOwner {
  /** Sends a whole message to the front-end. */
  send(bytes: Uint8Array): void;
  /** Device code may run, because a queue does. */
  start(): void;
  /** No device code may run any more. */
  stop(): void;
  /** There may be something for the device to do. */
  wake(): void;
  /** Something failed outside of `handle`. */
  fail(error: unknown): void;
}

const PROTOCOL_FEATURES =
  bit(ProtocolFeature.MQ) |
  bit(ProtocolFeature.REPLY_ACK) |
  bit(ProtocolFeature.CONFIG) |
  bit(ProtocolFeature.RESET_DEVICE) |
  bit(ProtocolFeature.CONFIGURE_MEM_SLOTS) |
  bit(ProtocolFeature.STATUS);

const U8 = 0xffn;
const NONE = new Uint8Array(0);

/** Size of the payload of each request, for those that have one size; and how many descriptors may come. */
const SHAPES: Partial<Record<Request, { bytes?: number; fds?: number }>> = {
  [Request.GET_FEATURES]: { bytes: 0 },
  [Request.SET_FEATURES]: { bytes: 8 },
  [Request.SET_OWNER]: { bytes: 0 },
  [Request.RESET_OWNER]: { bytes: 0 },
  [Request.SET_MEM_TABLE]: { fds: TABLE_REGIONS_MAX },
  [Request.SET_VRING_NUM]: { bytes: 8 },
  [Request.SET_VRING_ADDR]: { bytes: 40 },
  [Request.SET_VRING_BASE]: { bytes: 8 },
  [Request.GET_VRING_BASE]: { bytes: 8 },
  [Request.SET_VRING_KICK]: { bytes: 8, fds: 1 },
  [Request.SET_VRING_CALL]: { bytes: 8, fds: 1 },
  [Request.SET_VRING_ERR]: { bytes: 8, fds: 1 },
  [Request.GET_PROTOCOL_FEATURES]: { bytes: 0 },
  [Request.SET_PROTOCOL_FEATURES]: { bytes: 8 },
  [Request.GET_QUEUE_NUM]: { bytes: 0 },
  [Request.SET_VRING_ENABLE]: { bytes: 8 },
  [Request.GET_CONFIG]: {},
  [Request.SET_CONFIG]: {},
  [Request.RESET_DEVICE]: { bytes: 0 },
  [Request.GET_MAX_MEM_SLOTS]: { bytes: 0 },
  [Request.ADD_MEM_REG]: { bytes: 8 + REGION_BYTES, fds: 1 },
  [Request.REM_MEM_REG]: { bytes: 8 + REGION_BYTES, fds: 1 },
  [Request.SET_STATUS]: { bytes: 8 },
  [Request.GET_STATUS]: { bytes: 0 },
};

/** Requests that only make sense with a protocol feature. */
const NEEDS: Partial<Record<Request, ProtocolFeature>> = {
  [Request.GET_QUEUE_NUM]: ProtocolFeature.MQ,
  [Request.GET_CONFIG]: ProtocolFeature.CONFIG,
  [Request.SET_CONFIG]: ProtocolFeature.CONFIG,
  [Request.RESET_DEVICE]: ProtocolFeature.RESET_DEVICE,
  [Request.GET_MAX_MEM_SLOTS]: ProtocolFeature.CONFIGURE_MEM_SLOTS,
  [Request.ADD_MEM_REG]: ProtocolFeature.CONFIGURE_MEM_SLOTS,
  [Request.REM_MEM_REG]: ProtocolFeature.CONFIGURE_MEM_SLOTS,
  [Request.SET_STATUS]: ProtocolFeature.STATUS,
  [Request.GET_STATUS]: ProtocolFeature.STATUS,
};

/**
 * The back-end's side of one connection: what the front-end has said, and the queues that run because of it.
 * The front-end is not trusted. Whatever it does wrong throws, and the owner closes the connection.
 */
export class Session {
  private readonly memory: MemoryTable;
  private readonly vrings: Vring[];
  private readonly offered: bigint;
  private features = 0n;
  private protocol = 0n;
  private status = 0;
  /** What came of each queue until now, one for each time that it ran. */
  readonly reports: QueueReport[] = [];

  constructor(
    private readonly engine: Host,
    private readonly device: Device,
    private readonly system: SessionSystem,
    private readonly owner: SessionOwner,
  ) {
    this.memory = new MemoryTable(system.map);
    this.vrings = Array.from({ length: device.queues }, (_, index) => new Vring(index));
    this.offered = featureMask(device.features) | bit(F_PROTOCOL_FEATURES);
  }

  /** Queues that run. */
  get running(): { index: number; queue: DeviceQueue }[] {
    return this.vrings.flatMap(({ index, queue }) => (queue === undefined ? [] : [{ index, queue }]));
  }

  /**
   * Does what a message asks for, and answers. One at a time.
   * @throws VringError if it makes no sense; the connection must be closed then
   */
  async handle(message: Message): Promise<void> {
    const { request, flags, payload, fds } = message;
    try {
      this.check(message);
      this.owner.stop();
      const reply = await this.act(request, payload, fds);
      if (reply !== undefined) this.owner.send(encode(request, FLAG_REPLY, reply));
      else if (flags & FLAG_NEED_REPLY && this.has(ProtocolFeature.REPLY_ACK))
        this.owner.send(encode(request, FLAG_REPLY, new Uint8Array(8)));
    } finally {
      for (const fd of fds) if (fd >= 0) this.system.close(fd);
    }
    if (this.running.length > 0) this.owner.start();
  }

  private has(feature: ProtocolFeature): boolean {
    return (this.protocol & bit(feature)) !== 0n;
  }

  private check({ request, payload, fds }: Message): void {
    const name = requestName(request);
    const shape = SHAPES[request as Request];
    if (shape === undefined) throw new VringError('EPROTO', `${name} is unknown here and was not negotiated`);
    const { bytes, fds: most = 0 } = shape;
    if (bytes !== undefined && payload.byteLength !== bytes)
      throw new VringError('EPROTO', `${name} has ${payload.byteLength} bytes, not ${bytes}`);
    if (fds.length > most)
      throw new VringError('EPROTO', `${name} has ${fds.length} descriptors, at most ${most} belong to it`);
    const needed = NEEDS[request as Request];
    if (needed !== undefined && !this.has(needed))
      throw new VringError('EPROTO', `${name} needs ${ProtocolFeature[needed]}, which was not negotiated`);
  }

  /** @returns the payload of the reply, undefined if the request has none. Descriptors that it keeps become -1 in `fds` */
  private act(
    request: Request,
    payload: DataView,
    fds: number[],
  ): Uint8Array | undefined | Promise<Uint8Array | undefined> {
    switch (request) {
      case Request.GET_FEATURES:
        return u64(this.offered);
      case Request.SET_FEATURES:
        this.setFeatures(payload.getBigUint64(0, true));
        return undefined;
      case Request.SET_OWNER:
        return undefined;
      case Request.RESET_OWNER:
      case Request.RESET_DEVICE:
        return this.reset();
      case Request.SET_MEM_TABLE:
        return this.setMemoryTable(payload, fds);
      case Request.ADD_MEM_REG:
        if (fds.length !== 1) throw new VringError('EPROTO', 'ADD_MEM_REG came without a descriptor');
        this.memory.add(readRegion(payload, 8), fds[0]);
        this.setRegions();
        return undefined;
      case Request.REM_MEM_REG:
        return this.removeRegion(payload);
      case Request.GET_MAX_MEM_SLOTS:
        return u64(BigInt(MEMORY_SLOTS));
      case Request.SET_VRING_NUM:
        return this.setSize(payload);
      case Request.SET_VRING_BASE:
        return this.setBase(payload);
      case Request.GET_VRING_BASE:
        return this.getBase(payload);
      case Request.SET_VRING_ADDR:
        return this.setAddresses(payload);
      case Request.SET_VRING_KICK:
      case Request.SET_VRING_CALL:
      case Request.SET_VRING_ERR:
        return this.setEvent(request, payload.getBigUint64(0, true), fds);
      case Request.SET_VRING_ENABLE:
        return this.enable(payload);
      case Request.GET_PROTOCOL_FEATURES:
        return u64(PROTOCOL_FEATURES);
      case Request.SET_PROTOCOL_FEATURES: {
        const mask = payload.getBigUint64(0, true);
        if (mask & ~PROTOCOL_FEATURES)
          throw new VringError('EPROTO', `protocol features 0x${mask.toString(16)} were not all offered`);
        this.protocol = mask;
        return undefined;
      }
      case Request.GET_QUEUE_NUM:
        return u64(BigInt(this.vrings.length));
      case Request.GET_CONFIG:
        return this.getConfig(payload);
      case Request.SET_CONFIG:
        return this.setConfig(payload);
      case Request.SET_STATUS:
        this.status = Number(payload.getBigUint64(0, true) & U8);
        return this.status === 0 ? this.reset() : undefined;
      case Request.GET_STATUS:
        return u64(BigInt(this.status));
    }
  }

  private setFeatures(mask: bigint): void {
    if (mask & ~this.offered)
      throw new VringError(
        'EPROTO',
        `features 0x${mask.toString(16)}: 0x${(mask & ~this.offered).toString(16)} were not offered`,
      );
    if (mask !== this.features && this.running.length > 0)
      throw new VringError('EPROTO', 'features change while queues run: stop them first');
    this.features = mask;
  }

  /** @param index as it came */
  private vring(index: number, request: string): Vring {
    const vring = this.vrings[index];
    if (vring === undefined)
      throw new VringError('EPROTO', `${request} of queue ${index}: there are ${this.vrings.length}`);
    return vring;
  }

  /** A queue that does not run: its parameters may be set. */
  private idle(index: number, request: string): Vring {
    const vring = this.vring(index, request);
    if (vring.queue !== undefined)
      throw new VringError('EPROTO', `${request} of queue ${index}, which runs: stop it with GET_VRING_BASE`);
    return vring;
  }

  private setSize(payload: DataView): undefined {
    const vring = this.idle(payload.getUint32(0, true), 'SET_VRING_NUM');
    vring.size = checkSize('packed', payload.getUint32(4, true));
  }

  private setBase(payload: DataView): undefined {
    const vring = this.idle(payload.getUint32(0, true), 'SET_VRING_BASE');
    // A packed ring has the used position in the upper half. It differs only where buffers were lost, or
    // where the front-end leaves it out.
    vring.base = payload.getUint32(4, true) & 0xffff;
  }

  private setAddresses(payload: DataView): undefined {
    const vring = this.idle(payload.getUint32(0, true), 'SET_VRING_ADDR');
    const flags = payload.getUint32(4, true);
    if (flags !== 0)
      throw new VringError(
        'EPROTO',
        `SET_VRING_ADDR has flags 0x${flags.toString(16)}: logging was not offered`,
      );
    vring.user = {
      descriptor: payload.getBigUint64(8, true),
      device: payload.getBigUint64(16, true),
      driver: payload.getBigUint64(24, true),
    };
  }

  private async getBase(payload: DataView): Promise<Uint8Array> {
    const index = payload.getUint32(0, true);
    const vring = this.vring(index, 'GET_VRING_BASE');
    await this.stopQueue(vring);
    this.dropEvent(vring, 'kick');
    vring.started = false;
    const reply = new DataView(new ArrayBuffer(8));
    const base = vring.base ?? this.firstBase;
    reply.setUint32(0, index, true);
    reply.setUint32(4, this.packed ? (base | (base << 16)) >>> 0 : base, true);
    return new Uint8Array(reply.buffer);
  }

  private get packed(): boolean {
    return (this.features & bit(Feature.RING_PACKED)) !== 0n;
  }

  /** Packed rings start with wrap counter 1. */
  private get firstBase(): number {
    return this.packed ? 0x8000 : 0;
  }

  private setEvent(request: Request, value: bigint, fds: number[]): undefined {
    const name = requestName(request);
    if (value & ~(U8 | NO_DESCRIPTOR))
      throw new VringError('EPROTO', `${name} has value 0x${value.toString(16)}: queue and bit 8 are known`);
    const vring = this.vring(Number(value & U8), name);
    const wanted = value & NO_DESCRIPTOR ? 0 : 1;
    if (fds.length !== wanted)
      throw new VringError('EPROTO', `${name} has ${fds.length} descriptors, not ${wanted}`);
    const which =
      request === Request.SET_VRING_KICK ? 'kick' : request === Request.SET_VRING_CALL ? 'call' : 'err';
    if (wanted === 1) this.system.adoptEvent(fds[0]);
    this.dropEvent(vring, which);
    if (wanted === 1) {
      vring[which] = fds[0];
      fds[0] = -1;
    }
    if (which === 'call') {
      // What was sent to the descriptor before may be lost: better one too many.
      if (vring.queue !== undefined && vring.call >= 0) this.system.signal(vring.call);
      return;
    }
    if (which === 'err') return;
    if (vring.size === 0 || vring.user === undefined)
      throw new VringError(
        'EPROTO',
        `${name} of queue ${vring.index} before SET_VRING_NUM and SET_VRING_ADDR`,
      );
    vring.started = true;
    this.watchKick(vring);
    this.startIfReady(vring);
  }

  private watchKick(vring: Vring): void {
    const { kick } = vring;
    if (kick < 0) return;
    const watch = this.system.watch(kick, () => {
      try {
        this.system.drain(kick);
        this.owner.wake();
      } catch (error) {
        this.owner.fail(error);
      }
    });
    vring.unwatch = () => watch.stop();
  }

  private dropEvent(vring: Vring, which: 'kick' | 'call' | 'err'): void {
    if (which === 'kick') {
      vring.unwatch?.();
      vring.unwatch = undefined;
    }
    if (vring[which] >= 0) this.system.close(vring[which]);
    vring[which] = -1;
  }

  private async enable(payload: DataView): Promise<undefined> {
    const vring = this.vring(payload.getUint32(0, true), 'SET_VRING_ENABLE');
    const value = payload.getUint32(4, true);
    if (value > 1) throw new VringError('EPROTO', `SET_VRING_ENABLE has value ${value}, not 0 or 1`);
    vring.enabled = value === 1;
    if (value === 1) this.startIfReady(vring);
    else await this.stopQueue(vring);
  }

  private startIfReady(vring: Vring): void {
    // Without protocol features nobody can enable queues: they are from the start.
    const enabled = vring.enabled ?? (this.features & bit(F_PROTOCOL_FEATURES)) === 0n;
    if (vring.queue === undefined && vring.started && enabled) this.startQueue(vring);
  }

  private startQueue(vring: Vring): void {
    const { index, user } = vring;
    if (!(this.features & bit(Feature.VERSION_1)))
      throw new VringError(
        'EPROTO',
        `queue ${index} starts without VERSION_1: legacy drivers are not served`,
      );
    if (user === undefined) throw new Error('invariant: a queue that starts has addresses');
    const areas = {
      descriptor: this.memory.guestOf(user.descriptor, `descriptor area of queue ${index}`),
      driver: this.memory.guestOf(user.driver, `driver area of queue ${index}`),
      device: this.memory.guestOf(user.device, `device area of queue ${index}`),
    };
    const features = featureSet(this.features & ~bit(F_PROTOCOL_FEATURES));
    const queue = this.engine.deviceQueue({
      ring: this.packed ? 'packed' : 'split',
      size: vring.size,
      features,
      areas,
      regions: this.memory.regions,
      batches: this.device.batches?.(index) ?? true,
      interrupt: () => {
        if (vring.call >= 0) this.system.signal(vring.call);
      },
    });
    try {
      const position = vring.base ?? this.firstBase;
      queue.restore({ ...queue.save(), avail: position, used: position });
      this.device.startQueue({ index, queue, features, engine: this.engine });
    } catch (error) {
      queue.release();
      throw error;
    }
    vring.queue = queue;
  }

  /** Stops a queue if it runs, and remembers where it was. */
  private async stopQueue(vring: Vring): Promise<void> {
    const { queue } = vring;
    if (queue === undefined) return;
    vring.queue = undefined;
    try {
      await this.device.stopQueue(vring.index);
    } finally {
      const stats = queue.stats();
      this.reports.push({
        index: vring.index,
        popped: stats.added,
        pushed: stats.completed,
        lost: queue.inFlight,
        interruptsSent: stats.interruptsSent,
        interruptsSuppressed: stats.interruptsSuppressed,
        bytesOut: stats.bytesOut,
        bytesIn: stats.bytesIn,
      });
      if (queue.broken) {
        if (vring.err >= 0) this.system.signal(vring.err);
      } else vring.base = queue.save().avail;
      queue.release();
    }
  }

  private async stopAll(): Promise<Vring[]> {
    const stopped = this.vrings.filter(({ queue }) => queue !== undefined);
    const errors: unknown[] = [];
    // One that fails does not keep the others.
    for (const vring of stopped) await this.stopQueue(vring).catch((error) => errors.push(error));
    if (errors.length > 0) throw errors[0];
    return stopped;
  }

  private async reset(): Promise<undefined> {
    await this.stopAll();
    for (const vring of this.vrings) {
      for (const which of ['kick', 'call', 'err'] as const) this.dropEvent(vring, which);
      this.vrings[vring.index] = new Vring(vring.index);
    }
    this.status = 0;
  }

  private async setMemoryTable(payload: DataView, fds: number[]): Promise<undefined> {
    const count = payload.byteLength < 8 ? 0 : payload.getUint32(0, true);
    if (count === 0 || count > TABLE_REGIONS_MAX || payload.byteLength !== 8 + count * REGION_BYTES)
      throw new VringError('EPROTO', `SET_MEM_TABLE has ${payload.byteLength} bytes for ${count} regions`);
    if (fds.length !== count)
      throw new VringError('EPROTO', `SET_MEM_TABLE has ${fds.length} descriptors for ${count} regions`);
    // Queues that run go on where they were, wherever that now is.
    const stopped = await this.stopAll();
    this.memory.clear();
    readRegions(payload, 8, count).forEach((region, i) => {
      this.memory.add(region, fds[i]);
    });
    for (const vring of stopped) this.startQueue(vring);
  }

  private async removeRegion(payload: DataView): Promise<undefined> {
    const region = readRegion(payload, 8);
    this.memory.without(region);
    const stopped = await this.stopAll();
    this.memory.remove(region);
    // A ring that lay in it is found missing here.
    for (const vring of stopped) this.startQueue(vring);
  }

  private setRegions(): void {
    for (const { queue } of this.running) queue.setRegions(this.memory.regions);
  }

  private configRange(payload: DataView, request: string): { offset: number; size: number } {
    const have = payload.byteLength;
    const offset = have < CONFIG_HEADER_BYTES ? 0 : payload.getUint32(0, true);
    const size = have < CONFIG_HEADER_BYTES ? 0 : payload.getUint32(4, true);
    if (offset + size > CONFIG_BYTES_MAX || have !== CONFIG_HEADER_BYTES + size)
      throw new VringError('EPROTO', `${request} has ${have} bytes for offset ${offset}, size ${size}`);
    return { offset, size };
  }

  private getConfig(payload: DataView): Uint8Array {
    const { offset, size } = this.configRange(payload, 'GET_CONFIG');
    const reply = new Uint8Array(CONFIG_HEADER_BYTES + size);
    reply.set(new Uint8Array(payload.buffer, payload.byteOffset, CONFIG_HEADER_BYTES));
    // What is beyond the device's own fields reads as zeros.
    const config = this.device.config ?? NONE;
    reply.set(config.subarray(Math.min(offset, config.length), offset + size), CONFIG_HEADER_BYTES);
    return reply;
  }

  private setConfig(payload: DataView): undefined {
    const { offset, size } = this.configRange(payload, 'SET_CONFIG');
    const { config = NONE } = this.device;
    if (this.device.writeConfig === undefined || offset + size > config.length)
      throw new VringError('EPROTO', `SET_CONFIG of ${size} bytes at ${offset}: they cannot be written`);
    const at = payload.byteOffset + CONFIG_HEADER_BYTES;
    this.device.writeConfig(offset, new Uint8Array(payload.buffer.slice(at, at + size)));
  }

  /**
   * The connection is over: gives everything back.
   * @returns `reports`
   */
  async close(): Promise<QueueReport[]> {
    this.owner.stop();
    try {
      await this.stopAll();
    } finally {
      for (const vring of this.vrings)
        for (const which of ['kick', 'call', 'err'] as const) this.dropEvent(vring, which);
      this.memory.clear();
    }
    return this.reports;
  }
}

function u64(value: bigint): Uint8Array {
  const bytes = new DataView(new ArrayBuffer(8));
  bytes.setBigUint64(0, value, true);
  return new Uint8Array(bytes.buffer);
}

/** @throws VringError EINVAL for a device that cannot be served */
export function checkDevice(device: Device): void {
  const { queues, config = NONE } = device;
  if (!Number.isInteger(queues) || queues < 1 || queues > 256)
    throw new VringError('EINVAL', `device.queues must be an integer from 1 to 256, got ${show(queues)}`);
  if (config.length > CONFIG_BYTES_MAX)
    throw new VringError(
      'EINVAL',
      `device.config has ${config.length} bytes, at most ${CONFIG_BYTES_MAX} go`,
    );
  if (!(featureMask(device.features) & bit(Feature.VERSION_1)))
    throw new VringError('EINVAL', 'device.features lack VERSION_1 (32), without which nothing is served');
}
