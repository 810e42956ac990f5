import { readFile } from 'node:fs/promises';
import { type Host, type LoadOptions, loadEngine } from '../../src/index.js';
import { watchAllocators } from './watched-allocators.js';

export type EngineName = 'wasm' | 'typescript';

export const ENGINES: readonly EngineName[] = ['wasm', 'typescript'];

/** Loads one of the engines, on a memory of its own unless the options say otherwise. */
export type Load = (options?: Omit<LoadOptions, 'engine'>) => Promise<Host>;

/** Path of a build of the unshared module to test in place of the inlined one; set by scripts/test-debug.mjs. */
const MODULE = process.env.VRING_WASM;
if (MODULE !== undefined) watchAllocators();

/** The loader of one engine. */
export function loader(engine: EngineName): Load {
  return async (options = {}) => {
    if (engine !== 'wasm' || MODULE === undefined || isShared(options))
      return loadEngine({ ...options, engine });
    return loadEngine({ ...options, engine, module: await WebAssembly.compile(await readFile(MODULE)) });
  };
}

function isShared({ shared, memory }: Omit<LoadOptions, 'engine'>): boolean {
  return (
    shared === true || (memory instanceof WebAssembly.Memory && memory.buffer instanceof SharedArrayBuffer)
  );
}

/** Runs the same tests on both engines. */
export function forEachEngine(tests: (load: Load, engine: EngineName) => void): void {
  for (const engine of ENGINES) describe(`${engine} engine`, () => tests(loader(engine), engine));
}
