import * as L from '../../../assembly/abi/layout.js';
import type { Arena, LinearMemory } from '../../memory.js';
import type { DeviceRing, DeviceRingConfig, DeviceRingState, ElementState } from '../engine.js';
import type { Regions } from '../regions.js';
import type { WasmExports } from './module.js';
import { WasmRing } from './ring.js';

/** The exports of one ring format's device. */
type DeviceExports = ReturnType<typeof splitExports>;

function splitExports(wasm: WasmExports) {
  return {
    reset: wasm.splitDeviceReset,
    setRegions: wasm.splitDeviceSetRegions,
    inFlight: wasm.splitDeviceInFlight,
    popBurst: wasm.splitDevicePopBurst,
    pushBurst: wasm.splitDevicePushBurst,
    fill: wasm.splitDeviceFill,
    flush: wasm.splitDeviceFlush,
    detach: wasm.splitDeviceDetach,
    rewind: wasm.splitDeviceRewind,
    lastPopped: wasm.splitDeviceLastPopped,
    writable: wasm.splitDeviceWritable,
    shouldInterrupt: wasm.splitDeviceShouldInterrupt,
    enableNotifications: wasm.splitDeviceEnableNotifications,
    disableNotifications: wasm.splitDeviceDisableNotifications,
    availableBytes: wasm.splitDeviceAvailableBytes,
    availableIn: wasm.splitDeviceAvailableIn,
    availableOut: wasm.splitDeviceAvailableOut,
    save: wasm.splitDeviceSave,
    load: wasm.splitDeviceLoad,
  };
}

function packedExports(wasm: WasmExports): DeviceExports {
  return {
    reset: wasm.packedDeviceReset,
    setRegions: wasm.packedDeviceSetRegions,
    inFlight: wasm.packedDeviceInFlight,
    popBurst: wasm.packedDevicePopBurst,
    pushBurst: wasm.packedDevicePushBurst,
    fill: wasm.packedDeviceFill,
    flush: wasm.packedDeviceFlush,
    detach: wasm.packedDeviceDetach,
    rewind: wasm.packedDeviceRewind,
    lastPopped: wasm.packedDeviceLastPopped,
    writable: wasm.packedDeviceWritable,
    shouldInterrupt: wasm.packedDeviceShouldInterrupt,
    enableNotifications: wasm.packedDeviceEnableNotifications,
    disableNotifications: wasm.packedDeviceDisableNotifications,
    availableBytes: wasm.packedDeviceAvailableBytes,
    availableIn: wasm.packedDeviceAvailableIn,
    availableOut: wasm.packedDeviceAvailableOut,
    save: wasm.packedDeviceSave,
    load: wasm.packedDeviceLoad,
  };
}

const NONE = 0xffff;

export class WasmDevice extends WasmRing implements DeviceRing {
  private readonly exports: DeviceExports;
  private readonly heads: number;
  private readonly fillRing: number;
  private readonly order: number;
  private readonly words: number;
  private regions = 0;

  constructor(
    wasm: WasmExports,
    memory: LinearMemory,
    arena: Arena,
    private readonly config: DeviceRingConfig,
  ) {
    const packed = config.ring === 'packed';
    super(memory, arena, packed ? wasm.packedDeviceBytes() : wasm.splitDeviceBytes());
    this.exports = packed ? packedExports(wasm) : splitExports(wasm);
    try {
      const { size, areas, eventIdx, inOrder, batches, indirect, translation } = config;
      this.heads = this.take(size * L.HEAD_BYTES);
      this.fillRing = this.take(size * L.FILL_BYTES);
      this.order = this.take(size * 2);
      this.words = this.take(L.DEVICE_WORDS * 4);
      const windows = this.take(L.TRANSLATION_BYTES);
      const init = packed ? wasm.packedDeviceInit : wasm.splitDeviceInit;
      init(
        this.control,
        size,
        areas.descriptor,
        areas.driver,
        areas.device,
        this.heads,
        this.fillRing,
        this.order,
        eventIdx,
        inOrder,
        batches,
        indirect,
        windows,
        translation === 'eager',
      );
      this.setRegions(config.regions);
    } catch (error) {
      this.release();
      throw error;
    }
  }

  setRegions({ list }: Regions): void {
    const address = this.take(Math.max(1, list.length) * L.REGION_BYTES);
    // The engine looks at the first record even where there is none: an empty region.
    this.fillBytes(address, L.REGION_BYTES, 0);
    list.forEach((region, index) => {
      const record = address + index * L.REGION_BYTES;
      this.u32Set(record + L.REGION_GUEST, Number(region.guest & 0xffffffffn));
      this.u32Set(record + L.REGION_GUEST + 4, Number(region.guest >> 32n));
      this.u32Set(record + L.REGION_LENGTH, Number(region.length & 0xffffffffn));
      this.u32Set(record + L.REGION_LENGTH + 4, Number(region.length >> 32n));
      this.u32Set(record + L.REGION_LOCAL, region.local);
    });
    this.exports.setRegions(this.control, address, list.length);
    if (this.regions !== 0) this.give(this.regions);
    this.regions = address;
  }

  get inFlight(): number {
    return this.exports.inFlight(this.control);
  }

  get availableIn(): number {
    return this.exports.availableIn(this.control);
  }

  get availableOut(): number {
    return this.exports.availableOut(this.control);
  }

  popBurst(elements: number, pieces: number, pieceCapacity: number, max: number): number {
    return this.exports.popBurst(this.control, elements, pieces, pieceCapacity, max);
  }

  pushBurst(elements: number, n: number): number {
    return this.exports.pushBurst(this.control, elements, n);
  }

  fill(id: number, written: number, offset: number): number {
    return this.exports.fill(this.control, id, written, offset);
  }

  flush(n: number): number {
    return this.exports.flush(this.control, n);
  }

  detach(id: number): number {
    return this.exports.detach(this.control, id);
  }

  rewind(n: number): number {
    return this.exports.rewind(this.control, n);
  }

  lastPopped(): number {
    return this.exports.lastPopped(this.control);
  }

  writable(id: number): number {
    return this.exports.writable(this.control, id);
  }

  shouldInterrupt(): number {
    return this.exports.shouldInterrupt(this.control);
  }

  enableNotifications(): number {
    return this.exports.enableNotifications(this.control);
  }

  disableNotifications(): void {
    this.exports.disableNotifications(this.control);
  }

  availableBytes(maxIn: number, maxOut: number): number {
    return this.exports.availableBytes(this.control, maxIn, maxOut);
  }

  reset(): void {
    this.exports.reset(this.control);
  }

  // ---- State ----

  private word(index: number): number {
    return this.u32(this.words + index * 4);
  }

  private wordSet(index: number, value: number): void {
    this.u32Set(this.words + index * 4, value);
  }

  save(): DeviceRingState {
    const { size } = this.config;
    this.exports.save(this.control, this.words);
    const next = this.word(L.DEVICE_ORDER);
    const ago = new Map<number, number>();
    for (let back = size - 1; back >= 0; back--)
      ago.set(this.u16(this.order + ((next + size - 1 - back) % size) * 2), back);
    const fills: DeviceRingState['fills'] = [];
    for (let offset = 0; offset < size; offset++) {
      const record = this.fillRecord(offset);
      const slots = this.u16(record + L.FILL_SLOTS);
      if (slots === 0) continue;
      const id = this.u32(record + L.FILL_ID);
      fills.push({ offset, id, written: this.u32(record + L.FILL_WRITTEN), slots });
    }
    const filled = new Set(fills.map(({ id }) => id));
    const elements: ElementState[] = [];
    for (let id = 0; id < size; id++) {
      const record = this.heads + id * L.HEAD_BYTES;
      const flags = this.u16(record + L.HEAD_FLAGS) & 0xff;
      if (flags === 0 || filled.has(id)) continue;
      elements.push({
        id,
        writable: this.u32(record + L.HEAD_WRITABLE),
        slots: this.u16(record + L.HEAD_SLOTS),
        ago: ago.get(id) ?? -1,
        written: flags & L.HEAD_F_DONE ? this.u32(record + L.HEAD_WRITTEN) : -1,
      });
    }
    const age = (element: ElementState) => (element.ago < 0 ? size : element.ago);
    elements.sort((a, b) => age(b) - age(a) || a.id - b.id);
    return {
      avail: this.word(L.DEVICE_AVAIL),
      used: this.word(L.DEVICE_USED),
      events: this.word(L.DEVICE_EVENTS),
      unsignalled: this.word(L.DEVICE_UNSIGNALLED),
      elements,
      // Kept up in order only.
      span: this.config.inOrder ? this.word(L.DEVICE_SPAN) : 0,
      fills,
    };
  }

  /** Slots between the positions of a packed ring. */
  private between({ avail, used }: DeviceRingState): number {
    return (avail & 0x7fff) - (used & 0x7fff) + ((avail ^ used) & 0x8000 ? this.config.size : 0);
  }

  /** Record of the used entry `offset` slots behind the position in `words`. */
  private fillRecord(offset: number): number {
    return this.fillRing + ((this.word(L.DEVICE_FILL_FIRST) + offset) % this.config.size) * L.FILL_BYTES;
  }

  load(state: DeviceRingState): void {
    const { size, ring, inOrder } = this.config;
    const { elements, fills } = state;
    this.fillBytes(this.heads, size * L.HEAD_BYTES, 0);
    this.fillBytes(this.fillRing, size * L.FILL_BYTES, 0);
    this.fillBytes(this.order, size * 2, NONE & 0xff);
    // A split ring's ring of pops goes by its avail index.
    const next = ring === 'packed' ? 0 : state.avail % size;
    const done = elements.filter((element) => element.written >= 0);
    this.wordSet(L.DEVICE_AVAIL, state.avail);
    this.wordSet(L.DEVICE_USED, state.used);
    this.wordSet(L.DEVICE_EVENTS, state.events);
    this.wordSet(L.DEVICE_UNSIGNALLED, state.unsignalled);
    this.wordSet(L.DEVICE_IN_FLIGHT, elements.length + fills.length);
    // Those of detached elements, too.
    this.wordSet(L.DEVICE_SLOTS, ring === 'packed' ? this.between(state) : elements.length + fills.length);
    this.wordSet(L.DEVICE_FILLS, inOrder ? done.length : fills.length);
    this.wordSet(L.DEVICE_ORDER, next);
    this.wordSet(L.DEVICE_SPAN, state.span);
    this.wordSet(L.DEVICE_FILL_FIRST, ring === 'packed' ? 0 : state.used % size);
    for (const { id, writable, slots, ago, written } of elements) {
      const record = this.heads + id * L.HEAD_BYTES;
      this.u32Set(record + L.HEAD_WRITABLE, writable);
      this.u32Set(record + L.HEAD_WRITTEN, Math.max(0, written));
      this.u16Set(record + L.HEAD_SLOTS, slots);
      this.u16Set(record + L.HEAD_FLAGS, L.HEAD_F_IN_FLIGHT | (written >= 0 ? L.HEAD_F_DONE : 0));
      if (ago >= 0) this.u16Set(this.order + ((next + size - 1 - ago) % size) * 2, id);
    }
    for (const { offset, id, written, slots } of fills) {
      const record = this.fillRecord(offset);
      this.u32Set(record + L.FILL_WRITTEN, written);
      this.u32Set(record + L.FILL_ID, id);
      this.u16Set(record + L.FILL_SLOTS, slots);
      const head = this.heads + id * L.HEAD_BYTES;
      this.u16Set(head + L.HEAD_SLOTS, slots);
      this.u16Set(head + L.HEAD_FLAGS, L.HEAD_F_IN_FLIGHT | L.HEAD_F_DONE);
    }
    this.exports.load(this.control, this.words);
  }
}
