import { TypeScriptEngine } from '../../src/engine/typescript/engine.js';
import { WasmEngine } from '../../src/engine/wasm/engine.js';
import { instantiateEngine } from '../../src/engine/wasm/module.js';
import { Arena, LinearMemory } from '../../src/memory.js';
import { ENGINES } from './engines.js';
import { ARENA, RIG_BYTES, type RigOptions, RingRig } from './ring-rig.js';

// Used again and again: they are large.
const memory = new WebAssembly.Memory({ initial: RIG_BYTES / 65536 });

/** Runs the same tests on both engines, at the interface that they implement. */
export function forEachRig(what: string, tests: (setUp: (options: RigOptions) => RingRig) => void): void {
  for (const name of ENGINES)
    describe(`${what}, ${name} engine`, () => {
      const linear = new LinearMemory(memory);
      let engine: TypeScriptEngine | WasmEngine = new TypeScriptEngine(linear);
      before(async () => {
        if (name === 'wasm') {
          const wasm = await instantiateEngine(memory, false);
          engine = new WasmEngine(wasm, linear, new Arena(ARENA, RIG_BYTES - ARENA));
        }
      });
      tests((options) => new RingRig(engine, linear, options));
    });
}
