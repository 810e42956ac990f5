import * as L from '../../../assembly/abi/layout.js';
import type { Arena, LinearMemory } from '../../memory.js';
import type { Ring } from '../engine.js';

/** A control block in linear memory, with the arrays that belong to it. */
export abstract class WasmRing implements Ring {
  protected readonly control: number;
  private readonly blocks: number[] = [];

  constructor(
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

  protected u32(address: number): number {
    this.memory.fresh();
    return this.memory.u32[address >>> 2];
  }

  protected u32Set(address: number, value: number): void {
    this.memory.fresh();
    this.memory.u32[address >>> 2] = value;
  }

  protected u16(address: number): number {
    this.memory.fresh();
    return this.memory.u16[address >>> 1];
  }

  protected u16Set(address: number, value: number): void {
    this.memory.fresh();
    this.memory.u16[address >>> 1] = value;
  }

  /** `value` in each of `bytes` bytes. */
  protected fillBytes(address: number, bytes: number, value: number): void {
    this.memory.fresh();
    this.memory.u8.fill(value, address, address + bytes);
  }

  private word64(address: number): bigint {
    return BigInt(this.u32(address)) | (BigInt(this.u32(address + 4)) << 32n);
  }

  /** A count: exact up to 2^53. */
  protected u64(address: number): number {
    return Number(this.word64(address));
  }

  protected u64Set(address: number, value: number): void {
    const word = BigInt(value);
    this.u32Set(address, Number(word & 0xffffffffn));
    this.u32Set(address + 4, Number(word >> 32n));
  }

  get fault(): number {
    return this.u32(this.control + L.QUEUE_FAULT);
  }

  get faultA(): bigint {
    return this.word64(this.control + L.QUEUE_FAULT_A);
  }

  get faultB(): bigint {
    return this.word64(this.control + L.QUEUE_FAULT_B);
  }

  counter(index: number): number {
    return this.u64(this.control + L.QUEUE_COUNTERS + index * 8);
  }

  addCounter(index: number, n: number): void {
    this.u64Set(this.control + L.QUEUE_COUNTERS + index * 8, this.counter(index) + n);
  }
}
