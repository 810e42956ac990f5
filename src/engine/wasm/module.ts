import { instantiate } from '@assemblyscript/loader';
import { VringError } from '../../errors.js';
import { PLAIN, SHARED, type WasmExports } from './generated.js';

export type { WasmExports };

const decode = (base64: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));

// One compilation serves every memory: the module keeps no state.
const compiled = new Map<boolean, Promise<WebAssembly.Module>>();

function compile(shared: boolean): Promise<WebAssembly.Module> {
  let module = compiled.get(shared);
  if (!module) {
    module = WebAssembly.compile(decode(shared ? SHARED : PLAIN));
    compiled.set(shared, module);
    // A page whose policy forbids WebAssembly may change its mind: do not remember the failure.
    module.catch(() => compiled.delete(shared));
  }
  return module;
}

/**
 * Instantiates the engine on `memory`.
 * @param module compiled `vring.wasm` (or `vring.shared.wasm` for a shared memory); the inlined bytes if absent
 * @throws VringError ENOTSUP where WebAssembly is not allowed, EINVAL for a module that does not fit
 */
export async function instantiateEngine(
  memory: WebAssembly.Memory,
  shared: boolean,
  module?: WebAssembly.Module,
): Promise<WasmExports> {
  let code = module;
  try {
    code ??= await compile(shared);
  } catch (cause) {
    throw new VringError(
      'ENOTSUP',
      `WebAssembly cannot be compiled here (${String(cause)}): use engine 'typescript', or allow 'wasm-unsafe-eval'`,
      { cause },
    );
  }
  try {
    // The raw exports: the loader's own wrap every call.
    const { instance } = await instantiate(code, { env: { memory } });
    const exports = instance.exports as unknown as WasmExports;
    if (typeof exports.splitDriverInit !== 'function') throw new Error('it has no export splitDriverInit');
    return exports;
  } catch (cause) {
    throw new VringError(
      'EINVAL',
      `the module does not fit the memory (${String(cause)}): pass a compiled ${shared ? 'vring.shared.wasm' : 'vring.wasm'} of this version`,
      { cause },
    );
  }
}
