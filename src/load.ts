import { TypeScriptEngine } from './engine/typescript/engine.js';
import { WasmEngine } from './engine/wasm/engine.js';
import { instantiateEngine } from './engine/wasm/module.js';
import { show, VringError } from './errors.js';
import { Host, type MemoryOptions, prepareMemory } from './host.js';

export interface LoadOptions extends MemoryOptions {
  /**
   * `wasm`, `typescript`, or `auto` (default): WebAssembly, unless it is not allowed here or the memory is a
   * plain buffer. `engine.name` and `engine.reason` say which it was and why.
   */
  engine?: 'auto' | 'wasm' | 'typescript';
  /** A compiled `vring.wasm` (`vring.shared.wasm` for a shared memory) to use in place of the inlined bytes. */
  module?: WebAssembly.Module;
}

/**
 * Loads an engine on a memory.
 *
 * ```ts
 * const engine = await loadEngine();
 * const driver = engine.driverQueue({ ring: 'split', size: 256 });
 * ```
 * @throws VringError EINVAL for bad options, ENOMEM, ENOTSUP if WebAssembly was asked for and is not allowed
 */
export async function loadEngine(options: LoadOptions = {}): Promise<Host> {
  if (typeof options !== 'object' || options === null)
    throw new VringError('EINVAL', `options must be an object, got ${show(options)}`);
  const { engine: choice = 'auto', module } = options;
  if (choice !== 'auto' && choice !== 'wasm' && choice !== 'typescript')
    throw new VringError('EINVAL', `engine must be 'auto', 'wasm' or 'typescript', got ${show(choice)}`);
  const allowed = typeof WebAssembly === 'object';
  if (module !== undefined && !(allowed && module instanceof WebAssembly.Module))
    throw new VringError('EINVAL', `module must be a WebAssembly.Module, got ${show(module)}`);
  if (choice === 'typescript') return typescript(options, 'asked for');
  if (!allowed && choice === 'wasm')
    throw new VringError('ENOTSUP', "there is no WebAssembly here: use engine 'typescript'");
  if (!allowed) return typescript(options, 'there is no WebAssembly here');
  if (options.memory !== undefined && !(options.memory instanceof WebAssembly.Memory)) {
    // What is no memory at all is refused by prepareMemory.
    if (choice === 'auto') return typescript(options, 'the memory is a plain buffer');
    throw new VringError(
      'EINVAL',
      `the WebAssembly engine needs a WebAssembly.Memory, got ${show(options.memory)}: use engine 'typescript'`,
    );
  }
  const { memory, arena } = prepareMemory(options, false);
  try {
    const wasm = await instantiateEngine(memory.wasm as WebAssembly.Memory, memory.shared, module);
    const reason = choice === 'wasm' ? 'asked for' : 'WebAssembly is allowed here';
    return new Host(new WasmEngine(wasm, memory, arena), memory, arena, reason);
  } catch (error) {
    if (choice === 'auto' && error instanceof VringError && error.code === 'ENOTSUP')
      return new Host(new TypeScriptEngine(memory), memory, arena, error.message);
    throw error;
  }
}

function typescript(options: LoadOptions, reason: string): Host {
  const { memory, arena } = prepareMemory(options, true);
  return new Host(new TypeScriptEngine(memory), memory, arena, reason);
}
