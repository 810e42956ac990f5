import { TypeScriptEngine } from './engine/typescript/engine.js';
import { show, VringError } from './errors.js';
import { Host, type MemoryOptions, prepareMemory } from './host.js';

export * from './public.js';

/** Options of the entry without WebAssembly. */
export interface LoadOptions extends MemoryOptions {
  /** This entry has one engine: `auto` and `typescript` both mean it. */
  engine?: 'auto' | 'typescript';
}

/**
 * Loads the TypeScript engine on a memory. This entry contains no WebAssembly.
 * @throws VringError EINVAL for bad options, ENOMEM
 */
export async function loadEngine(options: LoadOptions = {}): Promise<Host> {
  if (typeof options !== 'object' || options === null)
    throw new VringError('EINVAL', `options must be an object, got ${show(options)}`);
  const { engine = 'auto' } = options;
  if (engine !== 'auto' && engine !== 'typescript')
    throw new VringError(
      'EINVAL',
      `engine must be 'auto' or 'typescript' in this entry, got ${show(engine)}`,
    );
  const { memory, arena } = prepareMemory(options, true);
  return new Host(new TypeScriptEngine(memory), memory, arena, 'the only engine of this entry');
}
