import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import {
  type DriverQueue,
  type DriverQueueOptions,
  Feature,
  type Host,
  type PciOptions,
  type PciQueue,
  PciTransport,
  type Segment,
} from '../../../src/index.js';
import { type Mapping, mapFile } from '../../../src/linux/mapping.js';
import { Arena } from '../../../src/memory.js';
import { areaLayout } from '../../../src/queue/queue.js';
import type { Load } from '../engines.js';
import { QtestFunction } from './function.js';
import { Qemu, RAM_BYTES } from './qemu.js';

const PAGE = 65536;
/** What the engine needs beside the machine's RAM. */
const ENGINE_BYTES = 4 * 1024 * 1024;
/** Below it are holes: ROMs and the like. */
const RAM_START = 0x10_0000;
const TABLE_BYTES = 256 * 1024;
const DEADLINE_MS = 30_000;
/** Looks at a word before the processor is left to others. */
const SPINS = 20;
/** Looks at a word between two at the device's status. */
const LOOKS = 100;
/** What interrupts store. */
const RAISED = 0x1234;

/** Features of the ring, as a test combines them. */
export interface Variant {
  ring: 'split' | 'packed';
  indirect: boolean;
  eventIdx: boolean;
}

export const VARIANTS: readonly Variant[] = (['split', 'packed'] as const).flatMap((ring) =>
  [false, true].flatMap((indirect) => [false, true].map((eventIdx) => ({ ring, indirect, eventIdx }))),
);

export const describeVariant = ({ ring, indirect, eventIdx }: Variant) =>
  `${ring}, ${indirect ? 'indirect' : 'direct'}, ${eventIdx ? 'event index' : 'flags'}`;

export function variantFeatures({ ring, indirect, eventIdx }: Variant): number[] {
  const features = [Feature.VERSION_1, Feature.RING_RESET];
  if (ring === 'packed') features.push(Feature.RING_PACKED);
  if (indirect) features.push(Feature.INDIRECT_DESC);
  if (eventIdx) features.push(Feature.EVENT_IDX);
  return features;
}

/** A QEMU with one virtio device. */
export interface Machine {
  /** Of the command line, that make the device. */
  options: string[];
  /** Where the device is on the bus. */
  slot: number;
  pci?: PciOptions;
}

/** A word of RAM that an MSI-X vector writes. */
export class Interrupt {
  /** How often it was found raised. */
  seen = 0;

  constructor(
    private readonly words: Int32Array,
    private readonly index: number,
    private readonly device: PciTransport,
  ) {}

  /** Lowers it. @returns whether it was raised */
  clear(): boolean {
    const raised = Atomics.exchange(this.words, this.index, 0) === RAISED;
    if (raised) this.seen++;
    return raised;
  }

  /** Waits until it is raised, and lowers it. Throws if there is no device any more that could raise it. */
  async wait(): Promise<void> {
    const start = Date.now();
    for (let looks = 1; !this.clear(); looks++) {
      if (Date.now() - start > DEADLINE_MS) throw new Error('no interrupt came');
      await (looks < SPINS ? setImmediate() : sleep(1));
      if (looks % LOOKS === 0) await this.device.readStatus();
    }
  }
}

/** A queue of a device in QEMU, with our driver on it. */
export class GuestQueue {
  constructor(
    private readonly guest: Guest,
    readonly device: PciQueue,
    readonly driver: DriverQueue,
    readonly interrupt: Interrupt,
    private readonly blocks: number[],
  ) {}

  /** Tells the device of what was added, if it wants to know. */
  async kick(): Promise<void> {
    if (this.driver.kickPrepare()) await this.device.notify(this.driver);
  }

  /** Waits for an interrupt, unless a buffer has come back already. */
  async idle(): Promise<void> {
    this.interrupt.clear();
    if (this.driver.enableCallbacks()) await this.interrupt.wait();
  }

  /** Resets the queue alone and goes on with another size. @returns tokens of the buffers that were in flight */
  async resize(size: number, vector: number): Promise<number[]> {
    await this.device.reset();
    const areas = this.guest.areas(this.driver.ring, size, this.blocks);
    const tokens = this.driver.resize(size, areas);
    await this.enable(vector);
    return tokens;
  }

  /** Tells the device where the ring is. */
  async enable(vector: number): Promise<void> {
    const { size, areas } = this.driver;
    const { guest } = this;
    await this.device.enable({
      size,
      areas: {
        descriptor: guest.physical(areas.descriptor),
        driver: guest.physical(areas.driver),
        device: guest.physical(areas.device),
      },
      vector,
    });
  }

  /** Gives everything back. The device must have been reset, or be gone. */
  release(): void {
    this.driver.release();
    for (const block of this.blocks) this.guest.ram.free(block);
  }
}

/** A QEMU with one virtio device, and an engine whose memory has the machine's RAM in it. */
export class Guest {
  private readonly words: Int32Array;

  private constructor(
    readonly qemu: Qemu,
    readonly engine: Host,
    private readonly mapping: Mapping,
    /** Allocator of the machine's RAM; addresses are the engine's. */
    readonly ram: Arena,
    readonly device: PciTransport,
  ) {
    this.words = new Int32Array(engine.buffer);
  }

  /** Runs `act` with a guest, which is gone afterwards. What fails first is what is thrown. */
  static async with(
    load: Load,
    { options, slot, pci }: Machine,
    act: (guest: Guest) => Promise<void>,
  ): Promise<void> {
    const guest = await Guest.start(load, options, slot, pci);
    try {
      await act(guest);
    } catch (error) {
      await guest.qemu.stop();
      throw error;
    }
    await guest.stop();
  }

  private static async start(load: Load, options: string[], slot: number, pci?: PciOptions): Promise<Guest> {
    const pages = (RAM_BYTES + ENGINE_BYTES) / PAGE;
    const memory = new WebAssembly.Memory({ initial: pages, maximum: pages, shared: true });
    const engine = await load({ memory, base: 0 });
    const qemu = await Qemu.start(options);
    try {
      const mapping = mapFile(engine, qemu.ram, { length: RAM_BYTES });
      const ram = new Arena(mapping.address + RAM_START, RAM_BYTES - RAM_START);
      const device = await PciTransport.open(await QtestFunction.enable(qemu.qtest, slot), pci);
      await device.msix?.enable();
      return new Guest(qemu, engine, mapping, ram, device);
    } catch (error) {
      await qemu.stop();
      throw error;
    }
  }

  get bytes(): Uint8Array {
    return new Uint8Array(this.engine.buffer);
  }

  /** Physical address of a place in the machine's RAM. */
  physical(address: number): number {
    return address - this.mapping.address;
  }

  /** Where a physical address of the machine lies in the engine's memory. */
  local(physical: number): number {
    return physical + this.mapping.address;
  }

  /** A part of a buffer, as the device finds it. */
  segment(address: number, length: number): Segment {
    return { address: this.physical(address), length };
  }

  /** Takes room for a ring. @param blocks gets what was taken */
  areas(ring: 'split' | 'packed', size: number, blocks: number[]) {
    const layout = areaLayout(ring, size);
    const take = (area: 'descriptor' | 'driver' | 'device') => {
      const address = this.ram.alloc(layout[area].bytes, layout[area].align);
      blocks.push(address);
      return address;
    };
    return { descriptor: take('descriptor'), driver: take('driver'), device: take('device') };
  }

  /** Points a vector at a word of RAM. */
  async interrupt(vector: number, blocks: number[]): Promise<Interrupt> {
    const address = this.ram.alloc(4);
    blocks.push(address);
    const interrupt = new Interrupt(this.words, address / 4, this.device);
    interrupt.clear();
    await this.device.msix?.setEntry(vector, this.physical(address), RAISED);
    return interrupt;
  }

  /** Makes and enables a queue. @param vector of its interrupts */
  async queue(
    index: number,
    size: number,
    vector: number,
    options: Partial<DriverQueueOptions> = {},
  ): Promise<GuestQueue> {
    const blocks: number[] = [];
    const { negotiated } = this.device.negotiation;
    const ring = negotiated.has(Feature.RING_PACKED) ? 'packed' : 'split';
    const areas = this.areas(ring, size, blocks);
    const tables = { address: this.ram.alloc(TABLE_BYTES), length: TABLE_BYTES };
    blocks.push(tables.address);
    const driver = this.engine.driverQueue({
      ring,
      size,
      features: negotiated,
      areas,
      indirect: { memory: tables },
      addressOffset: -this.mapping.address,
      strict: true,
      ...options,
    });
    const device = await this.device.queue(index);
    const interrupt = await this.interrupt(vector, blocks);
    const queue = new GuestQueue(this, device, driver, interrupt, blocks);
    await queue.enable(vector);
    return queue;
  }

  /** Ends QEMU and sees that everything taken from memory was given back. */
  private async stop(): Promise<void> {
    await this.qemu.stop();
    this.mapping.release();
    expect(this.ram.used, 'bytes of RAM still taken').to.equal(0);
    expect(this.engine.used, 'bytes of the engine still taken').to.equal(0);
  }
}
