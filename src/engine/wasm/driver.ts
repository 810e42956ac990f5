import * as L from '../../../assembly/abi/layout.js';
import type { Arena, LinearMemory } from '../../memory.js';
import type {
  BufferState,
  DriverRing,
  DriverRingConfig,
  DriverRingState,
  PolicyConfig,
  TableConfig,
  TableStrategy,
  ThresholdChange,
} from '../engine.js';
import { byTable, type TablePages, tablePages } from '../table-pages.js';
import type { WasmExports } from './module.js';
import { WasmRing } from './ring.js';

/** The exports of one ring format's driver. */
type DriverExports = ReturnType<typeof splitExports>;

function splitExports(wasm: WasmExports) {
  return {
    reset: wasm.splitDriverReset,
    numFree: wasm.splitDriverNumFree,
    inFlight: wasm.splitDriverInFlight,
    position: wasm.splitDriverPosition,
    addBurst: wasm.splitDriverAddBurst,
    kickPrepare: wasm.splitDriverKickPrepare,
    getBurst: wasm.splitDriverGetBurst,
    moreUsed: wasm.splitDriverMoreUsed,
    disableCallbacks: wasm.splitDriverDisableCallbacks,
    enableCallbacksPrepare: wasm.splitDriverEnableCallbacksPrepare,
    poll: wasm.splitDriverPoll,
    enableCallbacksDelayed: wasm.splitDriverEnableCallbacksDelayed,
    setTables: wasm.splitDriverSetTables,
    detachUnused: wasm.splitDriverDetachUnused,
    save: wasm.splitDriverSave,
    load: wasm.splitDriverLoad,
  };
}

function packedExports(wasm: WasmExports): DriverExports {
  return {
    reset: wasm.packedDriverReset,
    numFree: wasm.packedDriverNumFree,
    inFlight: wasm.packedDriverInFlight,
    position: wasm.packedDriverPosition,
    addBurst: wasm.packedDriverAddBurst,
    kickPrepare: wasm.packedDriverKickPrepare,
    getBurst: wasm.packedDriverGetBurst,
    moreUsed: wasm.packedDriverMoreUsed,
    disableCallbacks: wasm.packedDriverDisableCallbacks,
    enableCallbacksPrepare: wasm.packedDriverEnableCallbacksPrepare,
    poll: wasm.packedDriverPoll,
    enableCallbacksDelayed: wasm.packedDriverEnableCallbacksDelayed,
    setTables: wasm.packedDriverSetTables,
    detachUnused: wasm.packedDriverDetachUnused,
    save: wasm.packedDriverSave,
    load: wasm.packedDriverLoad,
  };
}

const STRATEGIES: Record<TableStrategy, number> = {
  none: L.TABLES_NONE,
  slab: L.TABLES_SLAB,
  'slab-bulk': L.TABLES_SLAB_BULK,
  list: L.TABLES_LIST,
};

/** How the threshold moves, and where it starts. */
function thresholdOf({ policy, threshold }: PolicyConfig, size: number): { mode: number; start: number } {
  switch (policy) {
    case 'always':
      return { mode: L.THRESHOLD_FIXED, start: 1 };
    case 'static':
      return { mode: L.THRESHOLD_FIXED, start: threshold };
    case 'adaptive':
      return { mode: L.THRESHOLD_ADAPTIVE, start: size };
    case 'adaptive-hysteresis':
      return { mode: L.THRESHOLD_HYSTERESIS, start: size };
  }
}

export class WasmDriver extends WasmRing implements DriverRing {
  private readonly exports: DriverExports;
  /** Blocks of the tables and of the threshold. */
  private readonly tables: number;
  private readonly limit: number;
  private readonly pages: TablePages;
  private readonly buffers: number;
  /** u16[size]: links of the free list; for a packed ring the ids by head slot behind it. */
  private readonly links: number;
  private readonly words: number;

  constructor(
    private readonly wasm: WasmExports,
    memory: LinearMemory,
    arena: Arena,
    private readonly config: DriverRingConfig,
  ) {
    const packed = config.ring === 'packed';
    super(memory, arena, packed ? wasm.packedDriverBytes() : wasm.splitDriverBytes());
    this.exports = packed ? packedExports(wasm) : splitExports(wasm);
    try {
      const { size, areas, tables, eventIdx, inOrder, indirect, strict, addressOffset } = config;
      this.pages = tablePages(indirect ? tables.length : 0);
      const { pages, shift } = this.pages;
      this.tables = this.take(wasm.tablesBytes(pages, shift));
      wasm.tablesInit(this.tables, tables.address, pages, shift);
      this.limit = this.take(wasm.thresholdBytes());
      const { mode, start } = thresholdOf(config.policy, size);
      wasm.thresholdInit(this.limit, mode, size, start);
      this.buffers = this.take(size * L.BUFFER_BYTES);
      this.links = this.take(size * (packed ? 4 : 2));
      this.words = this.take(L.DRIVER_WORDS * 4);
      const { descriptor, driver, device } = areas;
      if (packed)
        wasm.packedDriverInit(
          this.control,
          size,
          descriptor,
          driver,
          device,
          this.buffers,
          this.links,
          this.slotIds,
          this.tables,
          this.limit,
          eventIdx,
          inOrder,
          indirect,
          strict,
          addressOffset,
        );
      else
        wasm.splitDriverInit(
          this.control,
          size,
          descriptor,
          driver,
          device,
          this.buffers,
          this.links,
          this.tables,
          this.limit,
          eventIdx,
          inOrder,
          indirect,
          strict,
          addressOffset,
        );
      this.setTables(config.cache);
    } catch (error) {
      this.release();
      throw error;
    }
  }

  private get slotIds(): number {
    return this.links + this.config.size * 2;
  }

  get numFree(): number {
    return this.exports.numFree(this.control);
  }

  get inFlight(): number {
    return this.exports.inFlight(this.control);
  }

  get position(): number {
    return this.exports.position(this.control);
  }

  get tableBytes(): number {
    return this.u32(this.tables + L.TABLES_IN_FLIGHT) * L.DESC_BYTES;
  }

  get tableCount(): number {
    return this.u32(this.tables + L.TABLES_IN_FLIGHT + 4);
  }

  get listLength(): number {
    return this.wasm.tablesLength(this.tables);
  }

  get tableMemory(): number {
    return this.wasm.tablesPages(this.tables) * this.pages.granules * L.DESC_BYTES;
  }

  setTables({ strategy, descriptors, bound, prefill }: TableConfig): void {
    this.exports.setTables(this.control, STRATEGIES[strategy], descriptors, bound, prefill);
  }

  trimTables(length: number): void {
    this.wasm.tablesTrim(this.tables, length);
    this.wasm.tablesShrink(this.tables);
  }

  get threshold(): DriverRing['threshold'] {
    const changes = this.u64(this.limit + L.THRESHOLD_CHANGES);
    const history: ThresholdChange[] = [];
    for (let i = Math.max(0, changes - L.THRESHOLD_HISTORY); i < changes; i++) {
      const entry = this.limit + L.THRESHOLD_ENTRIES + (i % L.THRESHOLD_HISTORY) * L.CHANGE_BYTES;
      history.push({
        added: this.u64(entry + L.CHANGE_ADDED),
        threshold: this.u32(entry + L.CHANGE_VALUE),
      });
    }
    return { value: this.u32(this.limit + L.THRESHOLD_VALUE), changes, history };
  }

  override counter(index: number): number {
    return index < L.COUNTERS ? super.counter(index) : this.u64(this.tableCounter(index));
  }

  override addCounter(index: number, n: number): void {
    if (index < L.COUNTERS) {
      super.addCounter(index, n);
      return;
    }
    const before = this.counter(index);
    const sum = index === L.COUNT_TABLE_HIGH_WATER ? Math.max(before, n) : before + n;
    this.u64Set(this.tableCounter(index), sum);
  }

  private tableCounter(index: number): number {
    return this.tables + (index - L.COUNT_TABLE_HITS) * 8;
  }

  addBurst(segments: number, tokens: number, n: number): number {
    return this.exports.addBurst(this.control, segments, tokens, n);
  }

  kickPrepare(): number {
    return this.exports.kickPrepare(this.control);
  }

  getBurst(completions: number, max: number): number {
    return this.exports.getBurst(this.control, completions, max);
  }

  moreUsed(): number {
    return this.exports.moreUsed(this.control);
  }

  disableCallbacks(): void {
    this.exports.disableCallbacks(this.control);
  }

  enableCallbacksPrepare(): number {
    return this.exports.enableCallbacksPrepare(this.control);
  }

  poll(opaque: number): number {
    return this.exports.poll(this.control, opaque);
  }

  enableCallbacksDelayed(): number {
    return this.exports.enableCallbacksDelayed(this.control);
  }

  detachUnused(completion: number): number {
    return this.exports.detachUnused(this.control, completion);
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

  /** The descriptors (split) or slots (packed) of a buffer. */
  private descriptors(id: number, segments: number, table: number): number[] {
    const { ring, size } = this.config;
    const count = table === 0 ? segments : 1;
    const packed = ring === 'packed';
    const list: number[] = [];
    let index = packed ? this.u16(this.buffers + id * L.BUFFER_BYTES + L.BUFFER_PLACE) : id;
    for (let i = 0; i < count; i++) {
      list.push(index);
      index = packed ? (index + 1) % size : this.u16(this.links + index * 2);
    }
    return list;
  }

  private buffer(id: number): BufferState | undefined {
    const record = this.buffers + id * L.BUFFER_BYTES;
    const segments = this.u16(record + L.BUFFER_SEGMENTS);
    if (segments === 0) return undefined;
    // Its lowest bit says that the list wants it back.
    const table = this.u32(record + L.BUFFER_TABLE) & ~(L.DESC_BYTES - 1);
    return {
      id,
      token: this.u32(record + L.BUFFER_TOKEN),
      segments,
      writable: this.u32(record + L.BUFFER_WRITABLE),
      table: table >>> 0,
      room: table === 0 ? 0 : this.wasm.tablesRoom(this.tables, table),
      descriptors: this.descriptors(id, segments, table),
    };
  }

  save(): DriverRingState {
    const { ring, size, inOrder } = this.config;
    this.exports.save(this.control, this.words);
    const packed = ring === 'packed';
    const buffers: BufferState[] = [];
    const free: number[] = [];
    let index = this.word(L.DRIVER_FREE);
    if (inOrder) {
      // A ring of ids or descriptors: the free ones, then those in flight from the oldest on. Where some were
      // detached, the free ones lie in between, too.
      for (let i = 0; i < size; ) {
        const at = (index + i) % size;
        const buffer = this.buffer(at);
        if (buffer === undefined) free.push(at);
        else buffers.push(buffer);
        i += buffer === undefined || packed ? 1 : buffer.descriptors.length;
      }
    } else {
      for (let id = 0; id < size; id++) {
        const buffer = this.buffer(id);
        if (buffer !== undefined) buffers.push(buffer);
      }
      for (let i = packed ? size - buffers.length : this.word(L.DRIVER_NUM_FREE); i > 0; i--) {
        free.push(index);
        index = this.u16(this.links + index * 2);
      }
    }
    return {
      avail: this.word(L.DRIVER_AVAIL),
      used: this.word(L.DRIVER_USED),
      events: this.word(L.DRIVER_EVENTS),
      unkicked: this.word(L.DRIVER_UNKICKED),
      free,
      buffers,
      batchLeft: this.word(L.DRIVER_BATCH_LEFT),
      batchLength: this.word(L.DRIVER_BATCH_LENGTH),
      threshold: {
        threshold: this.u32(this.limit + L.THRESHOLD_VALUE),
        lap: this.u32(this.limit + L.THRESHOLD_LAP),
        peak: this.u32(this.limit + L.THRESHOLD_PEAK),
      },
    };
  }

  load(state: DriverRingState): void {
    const { ring, size, inOrder } = this.config;
    const packed = ring === 'packed';
    const { buffers, free, threshold } = state;
    this.fillBytes(this.buffers, size * L.BUFFER_BYTES, 0);
    this.wasm.tablesClear(this.tables);
    for (const { table, segments, room } of byTable(buffers))
      this.wasm.tablesRestore(this.tables, table, segments, room);
    this.wasm.tablesFill(this.tables);
    this.u32Set(this.limit + L.THRESHOLD_VALUE, threshold.threshold);
    this.u32Set(this.limit + L.THRESHOLD_LAP, threshold.lap);
    this.u32Set(this.limit + L.THRESHOLD_PEAK, threshold.peak);
    for (const [i, { id, token, writable, table, segments, descriptors }] of buffers.entries()) {
      const record = this.buffers + id * L.BUFFER_BYTES;
      // In-order use: those in flight were made available one after the other.
      const place = packed
        ? descriptors[0]
        : inOrder
          ? (state.used + i) & 0xffff
          : descriptors[descriptors.length - 1];
      this.u32Set(record + L.BUFFER_TOKEN, token);
      this.u32Set(record + L.BUFFER_WRITABLE, writable);
      this.u32Set(record + L.BUFFER_TABLE, table);
      this.u16Set(record + L.BUFFER_SEGMENTS, segments);
      this.u16Set(record + L.BUFFER_PLACE, place);
      if (packed && inOrder) this.u16Set(this.slotIds + descriptors[0] * 2, id);
      if (!packed && !inOrder)
        for (let i = 1; i < descriptors.length; i++)
          this.u16Set(this.links + descriptors[i - 1] * 2, descriptors[i]);
    }
    // In-order use has one fixed ring of links.
    if (inOrder) for (let i = 0; i < size; i++) this.u16Set(this.links + i * 2, (i + 1) % size);
    else for (let i = 1; i < free.length; i++) this.u16Set(this.links + free[i - 1] * 2, free[i]);
    const slots = buffers.reduce((sum, buffer) => sum + buffer.descriptors.length, 0);
    // With nothing free, in-order use goes on behind the youngest buffer, which is where the oldest starts.
    const first = free.length > 0 ? free[0] : buffers.length > 0 ? buffers[0].id : 0;
    this.wordSet(L.DRIVER_AVAIL, state.avail);
    this.wordSet(L.DRIVER_USED, state.used);
    this.wordSet(L.DRIVER_EVENTS, state.events);
    this.wordSet(L.DRIVER_UNKICKED, state.unkicked);
    this.wordSet(L.DRIVER_FREE, first);
    this.wordSet(L.DRIVER_NUM_FREE, size - slots);
    this.wordSet(L.DRIVER_IN_FLIGHT, buffers.length);
    this.wordSet(L.DRIVER_OLDEST, buffers.length > 0 ? buffers[0].id : first);
    this.wordSet(L.DRIVER_BATCH_LEFT, state.batchLeft);
    this.wordSet(L.DRIVER_BATCH_LENGTH, state.batchLength);
    this.exports.load(this.control, this.words);
  }
}
