import * as L from '../../../assembly/abi/layout.js';
import type { Arena, LinearMemory } from '../../memory.js';
import type { DeviceRing, DeviceRingConfig, DriverRing, DriverRingConfig, Ring } from '../engine.js';
import type { Regions } from '../regions.js';
import type { WasmExports } from './module.js';

/** A control block in linear memory, with the arrays that belong to it. */
abstract class WasmRing implements Ring {
  protected readonly control: number;
  private readonly blocks: number[] = [];

  constructor(
    protected readonly wasm: WasmExports,
    protected readonly memory: LinearMemory,
    private readonly arena: Arena,
    controlBytes: number,
  ) {
    this.control = this.take(controlBytes);
  }

  protected take(bytes: number): number {
    const address = this.arena.alloc(bytes, 16);
    this.blocks.push(address);
    return address;
  }

  protected give(address: number): void {
    this.blocks.splice(this.blocks.indexOf(address), 1);
    this.arena.free(address);
  }

  release(): void {
    for (const address of this.blocks.splice(0)) this.arena.free(address);
  }

  private u32(offset: number): number {
    this.memory.fresh();
    return this.memory.u32[(this.control + offset) >>> 2];
  }

  private u64(offset: number): bigint {
    return BigInt(this.u32(offset)) | (BigInt(this.u32(offset + 4)) << 32n);
  }

  get fault(): number {
    return this.u32(L.QUEUE_FAULT);
  }

  get faultA(): bigint {
    return this.u64(L.QUEUE_FAULT_A);
  }

  get faultB(): bigint {
    return this.u64(L.QUEUE_FAULT_B);
  }

  counter(index: number): number {
    return Number(this.u64(L.QUEUE_COUNTERS + index * 8));
  }
}

export class WasmSplitDriver extends WasmRing implements DriverRing {
  private readonly granules: number;

  constructor(wasm: WasmExports, memory: LinearMemory, arena: Arena, config: DriverRingConfig) {
    super(wasm, memory, arena, wasm.splitDriverBytes());
    try {
      const { size, areas, tables } = config;
      const total = Math.floor(tables.length / L.DESC_BYTES);
      this.granules = this.take(wasm.granulesBytes());
      wasm.granulesInit(
        this.granules,
        tables.address,
        total,
        this.take(Math.max(8, Math.ceil(total / 64) * 8)),
      );
      wasm.splitDriverInit(
        this.control,
        size,
        areas.descriptor,
        areas.driver,
        areas.device,
        this.take(size * wasm.splitDriverBufferBytes()),
        this.take(size * 2),
        this.granules,
        config.eventIdx,
        config.indirect,
        config.strict,
      );
    } catch (error) {
      this.release();
      throw error;
    }
  }

  get numFree(): number {
    return this.wasm.splitDriverNumFree(this.control);
  }

  get inFlight(): number {
    return this.wasm.splitDriverInFlight(this.control);
  }

  get tableBytes(): number {
    return this.wasm.granulesTaken(this.granules) * L.DESC_BYTES;
  }

  addBurst(segments: number, tokens: number, n: number): number {
    return this.wasm.splitDriverAddBurst(this.control, segments, tokens, n);
  }

  kickPrepare(): number {
    return this.wasm.splitDriverKickPrepare(this.control);
  }

  getBurst(completions: number, max: number): number {
    return this.wasm.splitDriverGetBurst(this.control, completions, max);
  }

  moreUsed(): number {
    return this.wasm.splitDriverMoreUsed(this.control);
  }

  disableCallbacks(): void {
    this.wasm.splitDriverDisableCallbacks(this.control);
  }

  enableCallbacksPrepare(): number {
    return this.wasm.splitDriverEnableCallbacksPrepare(this.control);
  }

  poll(opaque: number): number {
    return this.wasm.splitDriverPoll(this.control, opaque);
  }

  enableCallbacksDelayed(): number {
    return this.wasm.splitDriverEnableCallbacksDelayed(this.control);
  }

  detachUnused(completion: number): number {
    return this.wasm.splitDriverDetachUnused(this.control, completion);
  }

  reset(): void {
    this.wasm.splitDriverReset(this.control);
  }
}

export class WasmSplitDevice extends WasmRing implements DeviceRing {
  private regions = 0;

  constructor(wasm: WasmExports, memory: LinearMemory, arena: Arena, config: DeviceRingConfig) {
    super(wasm, memory, arena, wasm.splitDeviceBytes());
    try {
      const { size, areas } = config;
      wasm.splitDeviceInit(
        this.control,
        size,
        areas.descriptor,
        areas.driver,
        areas.device,
        this.take(size * wasm.splitDeviceHeadBytes()),
        this.take(size * 2),
        config.eventIdx,
        config.indirect,
      );
      this.setRegions(config.regions);
    } catch (error) {
      this.release();
      throw error;
    }
  }

  setRegions({ list }: Regions): void {
    const address = this.take(Math.max(1, list.length) * L.REGION_BYTES);
    this.memory.fresh();
    const { u32 } = this.memory;
    // The engine looks at the first record even where there is none: an empty region.
    u32.fill(0, address >>> 2, (address + L.REGION_BYTES) >>> 2);
    list.forEach((region, index) => {
      const at = (address + index * L.REGION_BYTES) >>> 2;
      u32[at + (L.REGION_GUEST >>> 2)] = Number(region.guest & 0xffffffffn);
      u32[at + (L.REGION_GUEST >>> 2) + 1] = Number(region.guest >> 32n);
      u32[at + (L.REGION_LENGTH >>> 2)] = Number(region.length & 0xffffffffn);
      u32[at + (L.REGION_LENGTH >>> 2) + 1] = Number(region.length >> 32n);
      u32[at + (L.REGION_LOCAL >>> 2)] = region.local;
    });
    this.wasm.splitDeviceSetRegions(this.control, address, list.length);
    if (this.regions !== 0) this.give(this.regions);
    this.regions = address;
  }

  get inFlight(): number {
    return this.wasm.splitDeviceInFlight(this.control);
  }

  get availableIn(): number {
    return this.wasm.splitDeviceAvailableIn(this.control);
  }

  get availableOut(): number {
    return this.wasm.splitDeviceAvailableOut(this.control);
  }

  popBurst(elements: number, pieces: number, pieceCapacity: number, max: number): number {
    return this.wasm.splitDevicePopBurst(this.control, elements, pieces, pieceCapacity, max);
  }

  pushBurst(elements: number, n: number): number {
    return this.wasm.splitDevicePushBurst(this.control, elements, n);
  }

  fill(id: number, written: number, offset: number): number {
    return this.wasm.splitDeviceFill(this.control, id, written, offset);
  }

  flush(n: number): number {
    return this.wasm.splitDeviceFlush(this.control, n);
  }

  detach(id: number): number {
    return this.wasm.splitDeviceDetach(this.control, id);
  }

  rewind(n: number): number {
    return this.wasm.splitDeviceRewind(this.control, n);
  }

  lastPopped(): number {
    return this.wasm.splitDeviceLastPopped(this.control);
  }

  writable(id: number): number {
    return this.wasm.splitDeviceWritable(this.control, id);
  }

  shouldInterrupt(): number {
    return this.wasm.splitDeviceShouldInterrupt(this.control);
  }

  enableNotifications(): number {
    return this.wasm.splitDeviceEnableNotifications(this.control);
  }

  disableNotifications(): void {
    this.wasm.splitDeviceDisableNotifications(this.control);
  }

  availableBytes(maxIn: number, maxOut: number): number {
    return this.wasm.splitDeviceAvailableBytes(this.control, maxIn, maxOut);
  }

  reset(): void {
    this.wasm.splitDeviceReset(this.control);
  }
}
