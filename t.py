import time
from tinygrad.uop.ops import UOp, Ops
from tinygrad.dtype import dtypes
idx = getattr(dtypes,'weakint',None) or dtypes.index
x=UOp.variable("x",0,100)
t=time.perf_counter()
u=x
keep=[]
for i in range(50000):
  u=(u+i) if i%2 else u*3
t2=time.perf_counter()
print("build/node us", (t2-t)/50000*1e6)
t=time.perf_counter(); n=len(u.toposort()); t2=time.perf_counter(); print("topo/node us",(t2-t)/n*1e6, n)
r=[UOp.range(8+i,i) for i in range(4)]
t=time.perf_counter()
for k in range(20):
  e=((r[0]*40+r[1]*4+r[2]*(k+1))//4*7+(r[3]*8+r[0])%8+(r[0]*4+k)%4)//3
  s=e.simplify()
t2=time.perf_counter(); print("simplify ms",(t2-t)/20*1e3, s.render() if hasattr(s,'render') else s)
