"""Fast look at a checkpoint: share of answers that greedy decoding would get exactly right, found by teacher forcing (every
argmax equals the expected token <=> greedy decoding gives the expected answer).  usage: quick.py CKPT [N] [ema|raw]"""
import collections, os, random, sys
import numpy as np
import torch
import evaltasks as e, model as M, tok as T

torch.set_num_threads(1)
ck = torch.load(sys.argv[1]); n = int(sys.argv[2]) if len(sys.argv) > 2 else 24; P = ck[sys.argv[3] if len(sys.argv) > 3 else 'ema']; C = M.CONFIGS[ck['name']]
tk = T.Tokenizer.load(os.path.join(os.path.dirname(sys.argv[1]), 'tokenizer.json'))
out = []
with torch.no_grad():
    for kind, ts in e.tasks(n).items():
        if kind in ('story', 'story_long', 'continue'): continue
        items = []
        for t in ts:
            a, _ = T.chat_ids(tk, t.turns[:-1], True); b, _ = T.chat_ids(tk, t.turns); b = b[:-1]
            if len(b) <= 2048: items.append((len(a), b))
        items.sort(key=lambda x: len(x[1])); ok = tot = tok_ok = tok_n = 0
        i = 0
        while i < len(items):
            k = max(1, min(len(items) - i, 8192 // max(len(x[1]) for x in items[i:i + 16]))); k = min(k, 16); ch = items[i:i + k]; i += k
            L = max(len(b) for _, b in ch); ids = torch.ones(len(ch), L, dtype=torch.long)
            for r, (_, b) in enumerate(ch): ids[r, :len(b)] = torch.tensor(b)
            h = M.hidden_states(C, P, ids, torch.zeros_like(ids))
            for r, (a, b) in enumerate(ch):
                p = (h[r, a - 1:len(b) - 1].float() @ P['emb'].T).argmax(-1); g = (p == ids[r, a:len(b)])
                ok += bool(g.all()); tot += 1; tok_ok += int(g.sum()); tok_n += len(g)
        out.append(f'{kind} {ok}/{tot} ({tok_ok / tok_n:.2f})')
print(ck['step'], ck['tokens'], ck['val'], '\n' + '; '.join(out))
