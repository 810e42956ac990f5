import { TypeScriptEngine } from '../../src/engine/typescript/engine.js';
import { Host } from '../../src/host.js';
import { Arena, LinearMemory } from '../../src/memory.js';
import type { Load } from './engines.js';

/** A 32-bit word of the memory that is now the one, now the other. */
export interface Flip {
  address: number;
  values: [number, number];
}

type Words = Uint8Array | Uint16Array | Uint32Array;

/**
 * The TypeScript engine on a memory that changes behind its back: whenever the engine has loaded any part of
 * one of the words in `flips`, the word becomes the other value, so that no second load sees what the first
 * one saw.
 */
export function capricious(flips: Flip[]): Load {
  const wrap = <T extends Words>(words: T): T =>
    new Proxy(words, {
      get(target, key) {
        const index = typeof key === 'string' ? Number(key) : Number.NaN;
        if (Number.isNaN(index)) {
          const value = target[key as keyof T];
          return typeof value === 'function' ? value.bind(target) : value;
        }
        const value = target[index];
        const at = index * target.BYTES_PER_ELEMENT;
        for (const { address, values } of flips)
          if (at <= address + 3 && at + target.BYTES_PER_ELEMENT > address) {
            const view = new DataView(target.buffer);
            const other = view.getInt32(address, true) === values[0] ? values[1] : values[0];
            view.setInt32(address, other, true);
          }
        return value;
      },
      set(target, key, value) {
        target[Number(key)] = value;
        return true;
      },
    });
  return async ({ memory, base, size } = {}) => {
    if (memory === undefined || base === undefined || size === undefined)
      throw new Error('where is the memory?');
    const linear = new LinearMemory(memory);
    linear.u8 = wrap(linear.u8);
    linear.u16 = wrap(linear.u16);
    linear.u32 = wrap(linear.u32);
    return new Host(new TypeScriptEngine(linear), linear, new Arena(base, size), 'for a test');
  };
}
